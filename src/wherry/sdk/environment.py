"""What a run needs to be there: for now an interpreter that its user manages."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Mapping, Optional

from ..core.errors import RunConfigurationException
from .section import Section


class PythonSection(Section):
    """Which Python, and who installs its packages."""

    def __init__(self) -> None:
        self.user_managed_dependencies = True
        self.interpreter_path = "python"
        self.conda_dependencies: Any = None
        self.conda_dependencies_file: Optional[str] = None
        self.base_conda_environment: Optional[str] = None
        self._seal()


class DockerSection(Section):
    """The container of an environment."""

    def __init__(self) -> None:
        self.enabled = False
        self.base_image: Optional[str] = None
        self.base_dockerfile: Optional[str] = None
        self.arguments: Any = []
        self.shared_volumes = True
        self.shm_size: Optional[str] = None
        self._seal()


class Environment(Section):
    """A named environment.

    >>> env = Environment("mine")
    >>> env.python.interpreter_path = "/opt/torch/bin/python"
    >>> env.environment_variables = {"OMP_NUM_THREADS": "4"}

    ``interpreter_path`` left at ``python`` means the interpreter that submits.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.version: Optional[str] = None
        self.python = PythonSection()
        self.docker = DockerSection()
        self.environment_variables: Dict[str, Any] = {}
        self._seal()

    def clone(self, new_name: str) -> Environment:
        """A copy under another name."""
        import copy

        other = copy.deepcopy(self)
        other.name = new_name
        return other

    def __str__(self) -> str:
        return f"Environment(Name: {self.name or 'unnamed'},\nVersion: {self.version})"


def interpreter_of(environment: Environment) -> str:
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


def check(environment: Environment) -> None:
    """Refuse what this version cannot prepare, before anything is sent."""
    python, docker = environment.python, environment.docker
    wants_packages = (
        not python.user_managed_dependencies
        or python.conda_dependencies is not None
        or python.conda_dependencies_file
        or python.base_conda_environment
    )
    if wants_packages:
        raise _refusal(environment, "conda or pip packages to be installed")
    if docker.enabled or docker.base_image or docker.base_dockerfile:
        raise _refusal(environment, "a container")


def from_spec(fields: Optional[Mapping[str, Any]]) -> Environment:
    """The environment of a run that the server described."""
    fields = fields or {}
    environment = Environment(str(fields.get("name") or ""))
    python = fields.get("python") or fields
    environment.python.interpreter_path = python.get("interpreter_path") or "python"
    environment.environment_variables = dict(fields.get("environment_variables") or {})
    return environment


def _refusal(environment: Environment, what: str) -> RunConfigurationException:
    return RunConfigurationException(
        f"environment {environment.name or 'unnamed'!r} asks for {what}, "
        "which this version cannot prepare",
        hint="set environment.python.interpreter_path to a Python that has what the script needs",
    )
