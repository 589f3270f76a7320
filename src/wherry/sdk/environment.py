"""``Environment``: what a run needs to be there, under a name and a version."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

import wherry  # the lazy surface: see run.py

from ..core.environments import LATEST, check_label, check_version, parse_reference
from ..core.errors import UserErrorException
from ..core.ids import check_name
from .client import quote
from .conda_dependencies import CondaDependencies
from .console import say
from .environment_sections import (
    ContainerRegistry,
    DatabricksSection,
    DockerBuildContext,
    DockerSection,
    PythonSection,
    SparkSection,
)
from .environment_spec import fill, kept, specification
from .late import Late
from .section import Section
from .values import texts

if TYPE_CHECKING:
    from . import environment_directory, environment_image, environment_sources, private_wheel
else:
    environment_directory = Late("environment_directory")
    environment_image = Late("environment_image")
    environment_sources = Late("environment_sources")
    private_wheel = Late("private_wheel")


class Environment(Section):
    """A named environment.

    >>> env = Environment("mine")
    >>> env.python.interpreter_path = "/opt/torch/bin/python"
    >>> env.environment_variables = {"OMP_NUM_THREADS": "4"}

    ``interpreter_path`` left at ``python`` means the interpreter that submits. Packages may be
    asked for instead:

    >>> env = Environment("sklearn")
    >>> env.python.conda_dependencies.add_conda_package("scikit-learn=1.5")
    >>> env.register(ws)
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.version: Optional[str] = None
        self.description = ""
        self.tags: Dict[str, str] = {}
        self.python = PythonSection()
        self.docker = DockerSection()
        self.spark = SparkSection()
        self.databricks = DatabricksSection()
        self.r: Any = None
        self.inferencing_stack_version: Optional[str] = None
        self.asset_id: Optional[str] = None
        self.environment_variables: Dict[str, Any] = {}
        self._inference: Dict[str, Any] = {}
        self._registered: Optional[str] = None
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
        if not str(image or "").strip():
            raise UserErrorException(
                f"{image!r} is no image", hint="name one, such as python:3.11-slim"
            )
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
        name: str, docker_build_context: Union[DockerBuildContext, str, os.PathLike[str]]
    ) -> Environment:
        """A container of an image that is built from a folder: the folder, or a context.

        >>> env = Environment.from_docker_build_context("mine", "docker")
        >>> context = DockerBuildContext.from_local_directory("docker", dockerfile_path="my.docker")
        >>> env = Environment.from_docker_build_context("mine", context)
        """
        if not isinstance(docker_build_context, DockerBuildContext):
            docker_build_context = DockerBuildContext.from_local_directory(docker_build_context)
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

        >>> env = Environment.from_lock("train", "lock.json")
        """
        environment = Environment(name)
        environment.python.lock = environment_sources.lock_of(lock)
        environment.python.user_managed_dependencies = False
        return environment

    @staticmethod
    def get(
        workspace: wherry.Workspace,
        name: str,
        version: Optional[str] = None,
        label: Optional[str] = None,
    ) -> Environment:
        """A registered or curated environment; without a version or a label the newest.

        >>> env = Environment.get(ws, "Wherry-sklearn")
        >>> env = Environment.get(ws, "train", version="3")
        >>> env = Environment.get(ws, "train", label="production")
        """
        if version is not None and label is not None:
            raise UserErrorException("both a version and a label are given", hint="give one")
        check_name("environment", name)
        if label not in (None, LATEST):
            which = f"labels/{quote(check_label(label))}"
        else:
            which = f"versions/{quote(_version(version))}"
        return _from_record(workspace._client.get(f"{_path(workspace, name)}/{which}"))

    @staticmethod
    def label(workspace: wherry.Workspace, name: str, version: str, labels: Sequence[str]) -> None:
        """Put labels on a version. Each is on one version at a time; ``latest`` is on the newest.

        >>> Environment.label(ws, "train", "3", ["production"])
        >>> env = Environment.get(ws, "train", label="production")
        """
        wanted = [check_label(each) for each in _listed(labels)]
        body = {"version": check_version(version)}
        for each in wanted:
            where = f"{_path(workspace, name)}/labels/{quote(each)}"
            workspace._client.request("PUT", where, json=body, retry=True)

    @staticmethod
    def unlabel(workspace: wherry.Workspace, name: str, labels: Sequence[str]) -> None:
        """Take labels from whichever versions they are on.

        >>> Environment.unlabel(ws, "train", ["production"])
        """
        for each in [check_label(each) for each in _listed(labels)]:
            workspace._client.delete(f"{_path(workspace, name)}/labels/{quote(each)}")

    @staticmethod
    def list(workspace: wherry.Workspace) -> Dict[str, Environment]:
        """The newest version of every environment by name, curated ones among them.

        >>> for name, env in Environment.list(ws).items():
        ...     print(name, env.python.conda_dependencies.serialize_to_string())
        """
        items = workspace._client.get(_path(workspace))["items"]
        return {record["name"]: _from_record(record) for record in items}

    @staticmethod
    def add_private_pip_wheel(
        workspace: wherry.Workspace, file_path: Any, exist_ok: bool = False
    ) -> str:
        """Give a wheel of your own to the workspace; its address goes among the pip packages.

        The address means this very content. Another one under the same file name is refused, unless
        ``exist_ok``: then both are kept, each under its own address.

        >>> address = Environment.add_private_pip_wheel(ws, "dist/mine-1.0-py3-none-any.whl")
        >>> env.python.conda_dependencies.add_pip_package(address)
        """
        return str(private_wheel.add(workspace, file_path, exist_ok)["address"])

    @staticmethod
    def _referred(workspace: wherry.Workspace, reference: str) -> Environment:
        """What a job file of v2 means by ``azureml:name:version`` and the like."""
        return Environment.get(workspace, *parse_reference(reference))

    def register(self, workspace: wherry.Workspace) -> Environment:
        """Keep it in the workspace; what is there already gets no second version.

        >>> env.register(ws).version
        '1'
        """
        body = {
            "name": check_name("environment", self.name),
            "version": self.version if self.version != self._registered else None,
            "description": self.description or "",
            "tags": texts("tags", self.tags),
            "specification": kept(specification(self), workspace.take_snapshot),
        }
        record = workspace._client.post(_path(workspace), json=body, retry=True)
        return _from_record(record)

    def build(self, workspace: wherry.Workspace, target: Any = "local") -> wherry.ImageBuildDetails:
        """Make it ahead on a target, so that the first run there need not wait.

        >>> env.build(ws).wait_for_completion(show_output=True)
        """
        return wherry.ImageBuildDetails.start(self, workspace, target)

    def build_local(self, workspace: wherry.Workspace, **_options: Any) -> wherry.ImageBuildDetails:
        """The same on this machine, where the server runs on it."""
        return self.build(workspace)

    def get_image_details(self, workspace: wherry.Workspace) -> Dict[str, Any]:
        """Its image and what that is made of, as it is registered.

        >>> env.get_image_details(ws)["dockerImage"]["name"]
        'python:3.11-slim'
        """
        return environment_image.details(Environment.get(workspace, self.name, self.version))

    def clone(self, new_name: str) -> Environment:
        """A copy under another name, which is not registered."""
        import copy

        other = copy.deepcopy(self)
        other.name = new_name
        other.version = other._registered = None
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

    def __repr__(self) -> str:
        return environment_directory.shown(self)


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


def _from_record(record: Mapping[str, Any]) -> Environment:
    environment = Environment(record["name"])
    fill(environment, record["specification"])
    environment.version = environment._registered = record["version"]
    environment.description = record.get("description") or ""
    environment.tags = dict(record.get("tags") or {})
    if record.get("notice"):
        say(record["notice"])
    return environment


def _path(workspace: wherry.Workspace, name: Optional[str] = None) -> str:
    every = f"/workspaces/{quote(workspace.name)}/environments"
    return every if name is None else f"{every}/{quote(check_name('environment', name))}"


def _version(version: Any) -> str:
    return LATEST if version in (None, LATEST) else check_version(version)


def _listed(labels: Any) -> List[Any]:
    if isinstance(labels, str):
        raise UserErrorException(f"labels is {labels!r}, not a list", hint=f"write [{labels!r}]")
    return list(labels)
