"""Sections of a run configuration that Azure ML's own targets read.

They are set, saved and loaded as with Azure ML, so that its files and scripts work unchanged.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from .section import Section


class SparkConfiguration(Section):
    """Settings of a Spark session."""

    def __init__(self) -> None:
        self.configuration: Dict[str, Any] = {
            "spark.app.name": "Azure ML Experiment",
            "spark.yarn.maxAppAttempts": 1,
        }
        self._seal()


class HdiConfiguration(Section):
    """How a Spark application is put into YARN: ``cluster`` or ``client``."""

    def __init__(self) -> None:
        self.yarn_deploy_mode = "cluster"
        self._seal()


class TensorflowConfiguration(Section):
    """How many workers and parameter servers TensorFlow has."""

    def __init__(self, worker_count: int = 1, parameter_server_count: int = 1) -> None:
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count
        self._seal()


class MpiConfiguration(Section):
    """How many processes MPI starts, on how many nodes."""

    def __init__(self, process_count_per_node: int = 1, node_count: int = 1) -> None:
        self.process_count_per_node = process_count_per_node
        self.node_count = node_count
        self._seal()


class PyTorchConfiguration(Section):
    """How many processes PyTorch has, on how many nodes, and how they talk to each other."""

    def __init__(
        self,
        communication_backend: str = "Nccl",
        process_count: Optional[int] = None,
        node_count: int = 1,
    ) -> None:
        self.communication_backend = communication_backend
        self.process_count = process_count
        self.node_count = node_count
        self._seal()


class ParallelTaskConfiguration(Section):
    """How many workers each node has, and how often one is tried again."""

    def __init__(
        self,
        max_retries_per_worker: int = 0,
        worker_count_per_node: int = 1,
        terminal_exit_codes: Optional[List[int]] = None,
    ) -> None:
        self.max_retries_per_worker = max_retries_per_worker
        self.worker_count_per_node = worker_count_per_node
        self.terminal_exit_codes = terminal_exit_codes
        self._seal()


class DataReferenceConfiguration(Section):
    """Data of a datastore that a run finds under a path."""

    def __init__(
        self,
        datastore_name: Optional[str] = None,
        mode: str = "mount",
        path_on_datastore: Optional[str] = None,
        path_on_compute: Optional[str] = None,
        overwrite: bool = False,
    ) -> None:
        self.data_store_name = datastore_name
        self.mode = mode
        self.path_on_data_store = path_on_datastore
        self.path_on_compute = path_on_compute
        self.overwrite = overwrite
        self._seal()


class AmlComputeConfiguration(Section):
    """The machines of a cluster that is made for the run."""

    def __init__(self) -> None:
        self.vm_size: Optional[str] = None
        self.vm_priority: Optional[str] = None
        self.retain_cluster = False
        self.name: Optional[str] = None
        self.cluster_max_node_count: Optional[int] = None
        self._seal()


class KubernetesComputeConfiguration(Section):
    """Which kind of machine of a Kubernetes cluster."""

    def __init__(self) -> None:
        self.instance_type: Optional[str] = None
        self._seal()


class ContainerInstanceConfiguration(Section):
    """The size and place of a container that is made for the run."""

    def __init__(self) -> None:
        self.region: Optional[str] = None
        self.cpu_cores: float = 1
        self.memory_gb: float = 4
        self._seal()


def pytorch() -> PyTorchConfiguration:
    """In a file the backend is written small."""
    return PyTorchConfiguration(communication_backend="nccl")


# In the order of Azure ML's files.
MADE: Dict[str, Callable[[], Any]] = {
    "spark": SparkConfiguration,
    "hdi": HdiConfiguration,
    "tensorflow": TensorflowConfiguration,
    "mpi": MpiConfiguration,
    "pytorch": pytorch,
    "paralleltask": ParallelTaskConfiguration,
    "data_references": dict,
    "data": dict,
    "datacaches": list,
    "output_data": dict,
    "source_directory_data_store": lambda: None,
    "amlcompute": AmlComputeConfiguration,
    "kubernetescompute": KubernetesComputeConfiguration,
    "credential_passthrough": lambda: False,
    "services": dict,
}
# Of its first versions, and what its files never hold: written only where they are used.
RARE: Dict[str, Callable[[], Any]] = {
    "container_instance": ContainerInstanceConfiguration,
    "batchai": AmlComputeConfiguration,
    "auto_cluster_compute_specification": lambda: None,
}


def make(name: str) -> Any:
    return {**MADE, **RARE}[name]()
