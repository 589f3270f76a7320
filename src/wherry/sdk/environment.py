"""``Environment``: what a run needs to be there, under a name and a version."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Union

from . import environment_directory, environment_sources
from .conda_dependencies import CondaDependencies
from .environment_sections import (
    ContainerRegistry,
    DockerBuildContext,
    DockerSection,
    PythonSection,
    SparkSection,
)
from .environment_spec import fill
from .section import Section


class Environment(Section):
    """A named environment.

    >>> env = Environment("mine")
    >>> env.python.interpreter_path = "/opt/torch/bin/python"
    >>> env.environment_variables = {"OMP_NUM_THREADS": "4"}

    ``interpreter_path`` left at ``python`` means the interpreter that submits. Packages may be
    asked for instead:

    >>> env = Environment("sklearn")
    >>> env.python.conda_dependencies.add_conda_package("scikit-learn=1.5")
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.version: Optional[str] = None
        self.description = ""
        self.tags: Dict[str, str] = {}
        self.python = PythonSection()
        self.docker = DockerSection()
        self.spark = SparkSection()
        self.inferencing_stack_version: Optional[str] = None
        self.environment_variables: Dict[str, Any] = {}
        self._inference: Dict[str, Any] = {}
        self._seal()

    @staticmethod
    def from_conda_specification(name: str, file_path: Any) -> Environment:
        """An environment with what a conda file asks for.

        >>> env = Environment.from_conda_specification("train", "conda.yml")
        """
        environment = Environment(name)
        environment_sources.add_packages(environment, conda=file_path)
        return environment

    @staticmethod
    def from_pip_requirements(
        name: str, file_path: Any, pip_version: Optional[str] = None
    ) -> Environment:
        """An environment with what a file of pip requirements asks for.

        >>> env = Environment.from_pip_requirements("train", "requirements.txt")
        """
        environment = Environment(name)
        environment_sources.add_packages(environment, pip=file_path, pip_version=pip_version)
        return environment

    @staticmethod
    def from_docker_image(
        name: str,
        image: str,
        container_registry: Optional[ContainerRegistry] = None,
        conda_specification: Any = None,
        pip_requirements: Any = None,
    ) -> Environment:
        """A container of an image, with packages on top if a file asks for some.

        >>> env = Environment.from_docker_image("slim", "python:3.11-slim")
        """
        environment = Environment(name)
        environment.docker.base_image = image
        environment.docker.enabled = True
        if container_registry is not None:
            environment.docker.base_image_registry = container_registry
        environment_sources.add_packages(environment, conda_specification, pip_requirements)
        return environment

    @staticmethod
    def from_dockerfile(
        name: str, dockerfile: Any, conda_specification: Any = None, pip_requirements: Any = None
    ) -> Environment:
        """A container of an image that a Dockerfile makes: its path, or its text.

        >>> env = Environment.from_dockerfile("mine", "docker/Dockerfile")
        """
        environment = Environment(name)
        environment.docker.base_dockerfile = environment_sources.dockerfile_text(dockerfile)
        environment.docker.enabled = True
        environment_sources.add_packages(environment, conda_specification, pip_requirements)
        return environment

    @staticmethod
    def from_docker_build_context(
        name: str, docker_build_context: DockerBuildContext
    ) -> Environment:
        """A container of an image that is built from a folder.

        >>> context = DockerBuildContext.from_local_directory("docker")
        >>> env = Environment.from_docker_build_context("mine", context)
        """
        environment = Environment(name)
        environment.docker.build_context = docker_build_context
        environment.docker.enabled = True
        environment.python.user_managed_dependencies = True
        return environment

    @staticmethod
    def from_existing_conda_environment(name: str, conda_environment_name: str) -> Environment:
        """An environment with the packages of a conda environment of this machine."""
        environment = Environment(name)
        conda = environment_sources.exported(conda_environment_name)
        environment.python.conda_dependencies = CondaDependencies(_underlying_structure=conda)
        environment.python.user_managed_dependencies = False
        return environment

    @staticmethod
    def from_lock(name: str, lock: Union[str, os.PathLike[str], Mapping[str, Any]]) -> Environment:
        """Exactly what an earlier build installed: its lock, or the lock's file.

        >>> env = Environment.from_lock("train", "environment.lock.json")
        """
        environment = Environment(name)
        environment.python.lock = environment_sources.lock_of(lock)
        environment.python.user_managed_dependencies = False
        return environment

    def clone(self, new_name: str) -> Environment:
        """A copy under another name, which is not registered."""
        import copy

        other = copy.deepcopy(self)
        other.name = new_name
        other.version = None
        return other

    def save_to_directory(self, path: Any, overwrite: bool = False) -> None:
        """Write ``azureml_environment.json`` and ``conda_dependencies.yml`` into a folder."""
        environment_directory.save(self, os.fspath(path), overwrite=overwrite)

    @staticmethod
    def load_from_directory(path: Any) -> Environment:
        """What ``save_to_directory`` wrote, here or with Azure ML."""
        environment = Environment()
        environment_directory.load(environment, os.fspath(path))
        return environment

    def __str__(self) -> str:
        return f"Environment(Name: {self.name or 'unnamed'},\nVersion: {self.version})"


def from_spec(fields: Optional[Mapping[str, Any]]) -> Environment:
    """The environment of a run that the server described."""
    fields = fields or {}
    environment = Environment(str(fields.get("name") or ""))
    environment.version = fields.get("version") or None
    python = fields.get("python") or fields
    environment.python.interpreter_path = python.get("interpreter_path") or "python"
    if fields.get("specification"):
        fill(environment, fields["specification"])
    environment.environment_variables = dict(fields.get("environment_variables") or {})
    return environment
