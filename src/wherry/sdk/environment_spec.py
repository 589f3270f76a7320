"""From an environment to its specification, the JSON that the server and the nodes know, and back.

What a specification may say is in ``core/environments.py``.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional

import wherry  # the lazy surface: see run.py

from ..core import environments
from ..core.errors import RunConfigurationException, UserErrorException
from .conda_dependencies import CondaDependencies
from .environment_sections import ContainerRegistry
from .yaml_text import read_file

_FOLDER = "folder:"  # a build context that was not sent yet


def specification(
    environment: wherry.Environment, container: Optional[wherry.DockerConfiguration] = None
) -> Dict[str, Any]:
    """What the environment asks for, checked. ``container`` is what a run says of its own."""
    spec: Dict[str, Any] = {"python": _python(environment)}
    docker = _docker(environment, container)
    if docker:
        spec["docker"] = docker
    spark = environment.spark.to_spec()
    if spark:
        spec["spark"] = spark
    inference = dict(environment._inference)
    if environment.inferencing_stack_version:
        inference["stack_version"] = environment.inferencing_stack_version
    if inference:
        spec["inference"] = inference
    variables = environment.environment_variables or {}
    if variables:
        spec["variables"] = variables
    return environments.parse(spec, _called(environment))


def is_plain(
    environment: wherry.Environment, container: Optional[wherry.DockerConfiguration] = None
) -> bool:
    """Whether an interpreter is all that it asks for: no packages, no container."""
    wanted = environment.docker.enabled or (container is not None and container.use_docker)
    return environment.python.user_managed_dependencies and not wanted


def interpreter_of(environment: wherry.Environment) -> str:
    """The interpreter that the environment means, as a path where it can be known here.

    What is not found here is sent as it was written: its target may have it.
    """
    path = os.fspath(environment.python.interpreter_path or "python")
    if path == "python":
        return sys.executable or "python3"
    if os.sep not in path:
        import shutil

        return shutil.which(path) or path
    found = os.path.abspath(os.path.expanduser(path))
    return found if os.path.exists(found) else path


def kept(spec: Dict[str, Any], keep: Callable[[str], str]) -> Dict[str, Any]:
    """The specification with its build context sent: ``keep`` makes a folder a snapshot."""
    context = (spec.get("docker") or {}).get("context") or ""
    if not context.startswith(_FOLDER):
        return spec
    return {**spec, "docker": {**spec["docker"], "context": keep(context[len(_FOLDER) :])}}


def fill(environment: wherry.Environment, spec: Mapping[str, Any]) -> None:
    """Make an environment what a specification says."""
    python = spec.get("python") or {}
    section = environment.python
    if python.get("conda") is not None:
        section.conda_dependencies = CondaDependencies(
            _underlying_structure=python["conda"],
            _where=python.get("file") or "",
            _lines=python.get("lines"),
        )
    section.user_managed_dependencies = bool(python.get("user_managed"))
    section.interpreter_path = python.get("interpreter") or "python"
    section.as_of = python.get("as_of")
    section.strict = bool(python.get("strict"))
    section.resolver = python.get("resolver")
    section.lock = python.get("lock")
    _fill_docker(environment, spec.get("docker") or {})
    spark = spec.get("spark") or {}
    environment.spark.repositories = list(spark.get("repositories") or [])
    environment.spark.packages = list(spark.get("packages") or [])
    environment.spark.precache_packages = bool(spark.get("precache_packages", True))
    environment._inference = dict(spec.get("inference") or {})
    environment.inferencing_stack_version = environment._inference.pop("stack_version", None)
    environment.environment_variables = dict(spec.get("variables") or {})


def _fill_docker(environment: wherry.Environment, docker: Mapping[str, Any]) -> None:
    section = environment.docker
    section.enabled = docker.get("enabled")
    section.base_image = docker.get("image")
    section.base_dockerfile = docker.get("dockerfile")
    section._context = docker.get("context")
    section.arguments = list(docker.get("arguments") or [])
    section.shared_volumes = bool(docker.get("shared_volumes", True))
    section.shm_size = docker.get("shm_size") or "2g"
    section.gpu_support = bool(docker.get("gpus"))
    registry = ContainerRegistry()
    for name, value in (docker.get("registry") or {}).items():
        setattr(registry, name, value)
    section.base_image_registry = registry


def _called(environment: wherry.Environment) -> str:
    return f"environment {environment.name or 'unnamed'!r}"


def _python(environment: wherry.Environment) -> Dict[str, Any]:
    section = environment.python
    if section.user_managed_dependencies:
        plain = is_plain(environment)
        path = interpreter_of(environment) if plain else str(section.interpreter_path or "python")
        return {"user_managed": True, "interpreter": path}
    spec: Dict[str, Any] = {"user_managed": False, **_packages(environment)}
    for name in ("as_of", "resolver"):
        value = getattr(section, name)
        if value:
            spec[name] = value.isoformat() if hasattr(value, "isoformat") else value
    if section.strict not in (False, None):
        spec["strict"] = section.strict
    return spec


def _packages(environment: wherry.Environment) -> Dict[str, Any]:
    section = environment.python
    if section.base_conda_environment:
        raise RunConfigurationException(
            f"{_called(environment)} builds on the conda environment "
            f"{section.base_conda_environment!r}, which only one machine has",
            hint="Environment.from_existing_conda_environment takes over its packages",
        )
    if section.lock is not None:
        return {"lock": dict(section.lock)}
    if section._conda is None and section.conda_dependencies_file:
        return CondaDependencies(section.conda_dependencies_file).to_spec()
    return section.conda_dependencies.to_spec()


def _docker(
    environment: wherry.Environment, container: Optional[wherry.DockerConfiguration]
) -> Dict[str, Any]:
    section = environment.docker
    used = container if container is not None and container.use_docker else section
    if not section.enabled and used is section:
        return {}
    spec: Dict[str, Any] = {
        "enabled": True,
        "image": section.base_image,
        "dockerfile": section.base_dockerfile,
        "registry": _registry(section.base_image_registry),
        "arguments": _words(used.arguments),
        "shared_volumes": bool(used.shared_volumes),
        "shm_size": used.shm_size,
    }
    if section._context:
        spec["context"] = section._context
    if section.build_context is not None:
        spec.update(_context(section.build_context))
    if section.gpu_support:
        spec["gpus"] = "all"
    return {name: value for name, value in spec.items() if value not in (None, [], {})}


def _context(context: wherry.DockerBuildContext) -> Dict[str, Any]:
    folder = os.path.abspath(os.path.expanduser(context.location))
    if not os.path.isdir(folder):
        raise UserErrorException(
            f"there is no folder {context.location!r} to build an image from",
            hint="name the folder that holds the Dockerfile",
        )
    path = os.path.join(folder, context.dockerfile_path)
    if not os.path.isfile(path):
        raise UserErrorException(
            f"the build context {context.location!r} has no {context.dockerfile_path!r}",
            hint="dockerfile_path is counted from the context's folder",
        )
    if not _within(path, folder):
        raise UserErrorException(
            f"the Dockerfile {context.dockerfile_path!r} is outside of the build context "
            f"{context.location!r}",
            hint="put it into the folder, or name a folder that holds both",
        )
    text = read_file(path, "a Dockerfile")
    if not text.strip():
        raise UserErrorException(
            f"{path} is empty", hint="a Dockerfile begins with FROM and the name of an image"
        )
    return {"image": None, "dockerfile": text, "context": _FOLDER + folder}


def _within(path: str, folder: str) -> bool:
    """Whether it lies there, wherever links lead."""
    folder = os.path.realpath(folder)
    return os.path.commonpath([os.path.realpath(path), folder]) == folder


def _registry(registry: Optional[ContainerRegistry]) -> Dict[str, Any]:
    names = ("address", "username", "password")
    found = {name: getattr(registry, name) for name in names} if registry is not None else {}
    return {name: value for name, value in found.items() if value}


def _words(arguments: Any) -> List[str]:
    if isinstance(arguments, str):
        import shlex

        return shlex.split(arguments)
    return [str(each) for each in arguments or []]
