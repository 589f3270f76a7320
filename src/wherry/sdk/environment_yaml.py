"""Environments as Azure ML's v2 describes them, in YAML: image, conda_file and build."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Sequence

from ..core.errors import UserErrorException
from ..core.nearest import suggest
from . import yaml_text
from .conda_dependencies import CondaDependencies, dated, lines_of
from .environment import Environment
from .environment_sections import DockerBuildContext

_FIELDS = (
    "$schema",
    "name",
    "version",
    "description",
    "tags",
    "properties",
    "image",
    "conda_file",
    "build",
    "inference_config",
    "os_type",
    "environment_variables",
    "python",
    "as_of",
    "strict",
)
_FORM = "such as: name: train, image: python:3.11-slim, conda_file: conda.yml"


def load_environment(path: Any) -> Environment:
    """The environment that a YAML file of Azure ML's v2 describes.

    >>> env = load_environment("environment.yml")
    >>> env.register(ws)
    """
    where = os.fspath(path)
    value, lines = yaml_text.parse_with_lines(
        yaml_text.read_file(where, "an environment's file"), where, _FORM
    )
    if not isinstance(value, Mapping):
        raise UserErrorException(f"{where} does not describe an environment", hint=_FORM)
    return from_fields(value, os.path.dirname(os.path.abspath(where)), where, lines)


def from_fields(
    fields: Mapping[str, Any],
    folder: str,
    where: str,
    lines: Optional[Mapping[Any, int]] = None,
) -> Environment:
    """``folder`` is what paths are counted from; ``lines`` is where each value stands."""
    _check(fields, where)
    environment = Environment(_text(fields, "name", where) or "")
    version = dated(fields.get("version"))
    environment.version = None if version is None else str(version)
    environment.description = _text(fields, "description", where) or ""
    environment.tags = {str(k): str(v) for k, v in _section(fields, "tags", where).items()}
    environment._inference = dict(_section(fields, "inference_config", where))
    environment.environment_variables = _section(fields, "environment_variables", where)
    _packages(environment, fields, folder, where, lines or {})
    _container(environment, fields, folder, where)
    environment.python.as_of = dated(fields.get("as_of"))
    environment.python.strict = fields.get("strict") or False
    return environment


def _packages(
    environment: Environment,
    fields: Mapping[str, Any],
    folder: str,
    where: str,
    lines: Mapping[Any, int],
) -> None:
    conda, python = fields.get("conda_file"), environment.python
    section = _section(fields, "python", where)
    _only(section, ("interpreter_path",), f"{where}: python")
    python.interpreter_path = _text(section, "interpreter_path", where) or "python"
    python.user_managed_dependencies = conda is None
    if isinstance(conda, str):
        python.conda_dependencies = CondaDependencies(os.path.join(folder, conda))
    elif isinstance(conda, Mapping):
        below = {at[1:]: line for at, line in lines.items() if at[:1] == ("conda_file",)}
        found = CondaDependencies(
            _underlying_structure=conda, _where=where, _lines=lines_of(conda, below)
        )
        python.conda_dependencies = found
    elif conda is not None:
        raise UserErrorException(
            f"{where}: conda_file is {conda!r}", hint="name a file, or write what it would say"
        )


def _container(
    environment: Environment, fields: Mapping[str, Any], folder: str, where: str
) -> None:
    image, build = _text(fields, "image", where), _section(fields, "build", where)
    if image and build:
        raise UserErrorException(
            f"{where} has both an image and a build", hint="the Dockerfile's FROM names the image"
        )
    environment.docker.base_image = image
    if build:
        if not isinstance(build.get("path"), str):
            raise UserErrorException(
                f"{where}: build names no folder", hint="write build: {path: docker}"
            )
        _only(build, ("path", "dockerfile_path"), f"{where}: build")
        dockerfile = str(build.get("dockerfile_path") or "Dockerfile")
        path = os.path.join(folder, build["path"])
        environment.docker.build_context = DockerBuildContext(path, dockerfile)
    environment.docker.enabled = bool(image or build)


def _check(fields: Mapping[str, Any], where: str) -> None:
    _only(fields, _FIELDS, where)
    if str(fields.get("os_type") or "linux").lower() != "linux":
        raise UserErrorException(
            f"{where}: os_type is {fields['os_type']!r}", hint="it may be linux, or be left out"
        )


def _only(fields: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in map(str, fields):
        if name not in known:
            shown = [each for each in known if each != "$schema"]
            raise UserErrorException(
                f"{where} has a field {name!r}, which an environment has not{suggest(name, known)}",
                hint=f"its fields are {', '.join(shown)}",
            )


def _text(fields: Mapping[str, Any], name: str, where: str) -> Optional[str]:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise UserErrorException(f"{where}: {name} is {value!r}, not text", hint="put it in quotes")
    return value


def _section(fields: Mapping[str, Any], name: str, where: str) -> Dict[str, Any]:
    value = fields.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise UserErrorException(
            f"{where}: {name} is {value!r} and has no fields",
            hint=f"write it as {name}: {{name: value}}",
        )
    return {str(key): item for key, item in (value or {}).items()}
