"""The sections of an environment."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ..core.errors import UserErrorException
from .conda_dependencies import CondaDependencies
from .section import Section


class ContainerRegistry(Section):
    """Where images are pulled from, and as whom."""

    def __init__(self) -> None:
        self.address: Optional[str] = None
        self.username: Optional[str] = None
        self.password: Optional[str] = None
        self.registry_identity: Any = None
        self._seal()

    def __repr__(self) -> str:
        return f"ContainerRegistry(address={self.address!r}, username={self.username!r})"


class DockerPlatform(Section):
    """What an image is built for."""

    def __init__(self) -> None:
        self.os = "Linux"
        self.architecture = "amd64"
        self._seal()


class DockerBuildContext(Section):
    """A folder that an image is built from.

    >>> context = DockerBuildContext.from_local_directory("docker", dockerfile_path="Dockerfile")
    """

    def __init__(self, location: str = "", dockerfile_path: str = "Dockerfile") -> None:
        self.location = location
        self.dockerfile_path = dockerfile_path
        self._seal()

    @staticmethod
    def from_local_directory(
        workspace: Any = None, path: Any = None, dockerfile_path: str = "Dockerfile"
    ) -> DockerBuildContext:
        """The folder; a workspace may come first, as in Azure ML."""
        import os

        folder = workspace if path is None else path
        if not isinstance(folder, (str, os.PathLike)):
            raise UserErrorException(
                f"{folder!r} is no folder to build an image from",
                hint="name the folder that holds the Dockerfile",
            )
        return DockerBuildContext(os.fspath(folder), dockerfile_path)


class PythonSection(Section):
    """Which Python, and who installs its packages."""

    def __init__(self) -> None:
        self._implied = False  # an interpreter that nobody asked for in words
        self._user_managed: Optional[bool] = None
        self._conda: Optional[CondaDependencies] = None
        self._untouched: Optional[CondaDependencies] = None
        self.interpreter_path = "python"
        self.conda_dependencies_file: Optional[str] = None
        self.base_conda_environment: Optional[str] = None
        self.as_of: Optional[str] = None
        self.strict = False
        self.resolver: Optional[str] = None
        self.lock: Optional[Mapping[str, Any]] = None
        self._seal()

    @property
    def user_managed_dependencies(self) -> bool:
        """Whether the interpreter has all that is needed.

        So it is until packages are asked for, or this is set.
        """
        if self._user_managed is not None:
            return self._user_managed
        asked = self.conda_dependencies_file or self.base_conda_environment or self.lock
        return not asked and (self._conda is None or self._conda == self._untouched)

    @user_managed_dependencies.setter
    def user_managed_dependencies(self, value: Optional[bool]) -> None:
        self._user_managed = None if value is None else bool(value)

    @property
    def conda_dependencies(self) -> CondaDependencies:
        """The packages to install."""
        if self._conda is None:
            self._conda, self._untouched = CondaDependencies(), CondaDependencies()
        return self._conda

    @conda_dependencies.setter
    def conda_dependencies(self, value: Any) -> None:
        if value is not None and not isinstance(value, CondaDependencies):
            kind = type(value).__name__
            raise TypeError(f"conda_dependencies must be CondaDependencies, not {kind}")
        self._conda, self._untouched = value, None


class DockerSection(Section):
    """The container of an environment."""

    def __init__(self) -> None:
        self._enabled: Optional[bool] = None
        self._context: Optional[str] = None  # a build context that the server has
        self.base_image: Optional[str] = None
        self.base_dockerfile: Optional[str] = None
        self.build_context: Optional[DockerBuildContext] = None
        self.base_image_registry = ContainerRegistry()
        self.platform = DockerPlatform()
        self.shared_volumes = True
        self.shm_size: Optional[str] = "2g"
        self.arguments: Any = []
        self.gpu_support = False
        self._seal()

    @property
    def enabled(self) -> bool:
        """Whether a container is used: so it is where an image is named, unless this is set."""
        if self._enabled is not None:
            return self._enabled
        return bool(self.base_image or self.base_dockerfile or self.build_context or self._context)

    @enabled.setter
    def enabled(self, value: Optional[bool]) -> None:
        self._enabled = None if value is None else bool(value)


class SparkSection(Section):
    """What a Spark application brings along."""

    def __init__(self) -> None:
        self.repositories: List[Any] = []
        self.packages: List[Any] = []
        self.precache_packages = True
        self._seal()

    def to_spec(self) -> Dict[str, Any]:
        if not self.repositories and not self.packages:
            return {}
        return {
            "repositories": list(self.repositories),
            "packages": list(self.packages),
            "precache_packages": bool(self.precache_packages),
        }


class DatabricksSection(Section):
    """What a Databricks cluster brings along. It is kept in files; no target of ours reads it."""

    def __init__(self) -> None:
        self.maven_libraries: List[Any] = []
        self.pypi_libraries: List[Any] = []
        self.rcran_libraries: List[Any] = []
        self.jar_libraries: List[Any] = []
        self.egg_libraries: List[Any] = []
        self._seal()
