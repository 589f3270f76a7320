"""Where and how a script runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Type, Union

from ..core.errors import UserErrorException
from ..core.resources import Resources
from .environment import Environment
from .late import Late
from .section import Section

if TYPE_CHECKING:
    from . import run_config_file, run_config_sections
else:
    run_config_file = Late("run_config_file")
    run_config_sections = Late("run_config_sections")

DEFAULT_CPU_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04"
DEFAULT_GPU_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.1-cudnn8-ubuntu20.04"


class HistoryConfiguration(Section):
    """What is kept of a run."""

    def __init__(self) -> None:
        self.output_collection = True
        self.snapshot_project = True
        self.directories_to_watch: List[str] = ["logs"]
        self._seal()


class DockerConfiguration(Section):
    """Whether the run goes into a container."""

    def __init__(
        self,
        use_docker: bool = False,
        shared_volumes: bool = True,
        arguments: Optional[List[str]] = None,
        shm_size: str = "2g",
    ) -> None:
        self.use_docker = use_docker
        self.shared_volumes = shared_volumes
        self.arguments = arguments or []
        self.shm_size = shm_size
        self._seal()


class Part:
    """A section that is made when it is first looked at: most scripts never do."""

    def __set_name__(self, owner: Type[Any], name: str) -> None:
        self._name = name

    def __get__(self, config: Any, owner: Optional[Type[Any]] = None) -> Any:
        if config is None:
            return self
        made = config.__dict__[self._name] = run_config_sections.make(self._name)
        return made


class RunConfiguration(Section):
    """Where and how a script runs; the same for every target.

    >>> config = RunConfiguration()
    >>> config.target = "local"
    >>> config.environment.python.interpreter_path = "/opt/torch/bin/python"
    >>> config.resources = Resources(cpu=2, gpu=1)

    An attribute that does not exist is refused. ``communicator`` says which of ``mpi``, ``pytorch``
    and ``tensorflow`` counts, if any. ``container_instance`` has the size of the container that a
    run on the target ``containerinstance`` gets. Sections for Azure ML's own targets
    (``amlcompute``, ``hdi``, ...) are kept, saved and loaded; Wherry's have no use for them.
    """

    amlcompute = Part()
    auto_cluster_compute_specification = Part()
    batchai = Part()
    container_instance = Part()
    credential_passthrough = Part()
    data = Part()
    data_references = Part()
    datacaches = Part()
    hdi = Part()
    kubernetescompute = Part()
    mpi = Part()
    output_data = Part()
    paralleltask = Part()
    pytorch = Part()
    services = Part()
    source_directory_data_store = Part()
    spark = Part()
    tensorflow = Part()

    def __init__(
        self,
        script: Optional[str] = None,
        arguments: Any = None,
        framework: Optional[str] = None,
        communicator: Optional[str] = None,
        conda_dependencies: Any = None,
        _history_enabled: Optional[bool] = None,
        _path: Optional[str] = None,
        _name: Optional[str] = None,
        command: Union[str, Sequence[Any], None] = None,
    ) -> None:
        self.script = script
        self.arguments = [] if arguments is None else arguments
        self.command = command
        self.target: Any = "local"
        self.framework = framework or "Python"
        self.communicator = communicator or "None"
        self.node_count = 1
        self.max_run_duration_seconds: Optional[float] = None
        self.priority: Optional[int] = None
        self._environment = Environment()
        self.environment.python.conda_dependencies = conda_dependencies
        self.environment_variables: Dict[str, Any] = {}
        self.history = HistoryConfiguration()
        self.docker: Optional[DockerConfiguration] = None
        self.resources: Any = Resources()
        self.auto_prepare_environment: Optional[bool] = None
        self.prepare_environment: Optional[bool] = None
        self._others: Dict[str, Any] = {}
        self._seal()

    @property
    def environment(self) -> Environment:
        """What the script needs to be there."""
        return self._environment

    @environment.setter
    def environment(self, value: Any) -> None:
        if not isinstance(value, Environment):
            raise UserErrorException(
                f"environment is {value!r}, not an Environment",
                hint="Environment.get(ws, name) gives one that is registered or curated",
            )
        self._environment = value

    def save(
        self, path: Any = None, name: Optional[str] = None, separate_environment_yaml: bool = False
    ) -> None:
        """Write it as Azure ML does: ``.azureml/NAME`` below a folder, with its conda file.

        >>> config.save(".", "gpu.runconfig")
        """
        run_config_file.save(self, path, name, separate=separate_environment_yaml)

    @staticmethod
    def load(
        path: Any = None,
        name: Optional[str] = None,
        *,
        project_object: Any = None,
        run_config_name: Optional[str] = None,
    ) -> RunConfiguration:
        """What ``save`` wrote, here or with Azure ML of any version.

        >>> config = RunConfiguration.load(".", "gpu.runconfig")
        """
        config = RunConfiguration()
        run_config_file.load(config, _folder_of(project_object, path), name or run_config_name)
        return config

    @staticmethod
    def delete(path: Any, name: Optional[str] = None) -> None:
        """Remove a saved configuration."""
        where = run_config_file.find(os.fspath(path), name)
        if where is not None:
            os.remove(where)

    def __repr__(self) -> str:
        return f"RunConfiguration(target={self.target!r}, script={self.script!r})"


def _folder_of(project: Any, path: Any) -> Any:
    """The folder of a project, which Azure ML's first versions had an object for."""
    return getattr(project, "project_directory", project) if project is not None else path
