"""From Azure ML's ways to ask for many processes to the one that a run is asked for with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from ..core.errors import RunConfigurationException
from .run_config_sections import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration

if TYPE_CHECKING:
    from .run_configuration import RunConfiguration

_BY_COMMUNICATOR = {
    "mpi": "mpi",
    "openmpi": "mpi",
    "intelmpi": "mpi",
    "nccl": "pytorch",
    "gloo": "pytorch",
    "parameterserver": "tensorflow",
}


def asked_for(config: RunConfiguration, job: Any) -> Dict[str, Any]:
    """``node_count`` and ``distribution`` of a run; ``job`` is its ``distributed_job_config``.

    Without one, ``communicator`` of the run configuration names the section that counts.
    """
    nodes = _whole("node_count", config.node_count)
    job = job if job is not None else _section(config)
    if job is None:
        return {"node_count": nodes} if nodes != 1 else {}
    if isinstance(job, PyTorchConfiguration):
        nodes = max(nodes, _whole("node_count", job.node_count))
        return _processes("pytorch", nodes, _per_node(job, nodes))
    if isinstance(job, MpiConfiguration):
        nodes = max(nodes, _whole("node_count", job.node_count))
        each = _whole("process_count_per_node", job.process_count_per_node)
        return _processes("mpi", nodes, each)
    if isinstance(job, TensorflowConfiguration):
        return _tensorflow(job, nodes)
    raise RunConfigurationException(
        f"distributed_job_config is {job!r}",
        hint="give a PyTorchConfiguration, MpiConfiguration or TensorflowConfiguration",
    )


def _section(config: RunConfiguration) -> Optional[Any]:
    communicator = str(config.communicator or "None").lower()
    if communicator == "none":
        return None
    name = _BY_COMMUNICATOR.get(communicator)
    if name is None:
        raise RunConfigurationException(
            f"the run configuration asks for communicator {config.communicator!r}, which is "
            "not known",
            hint="the communicators are None, Mpi, OpenMpi, IntelMpi, Nccl, Gloo, ParameterServer",
        )
    return getattr(config, name)


def _per_node(job: PyTorchConfiguration, nodes: int) -> int:
    """Azure ML counts the processes of all nodes together."""
    if job.process_count is None:
        return 1
    total = _whole("process_count", job.process_count)
    if total % nodes:
        raise RunConfigurationException(
            f"PyTorch is to have {total} processes on {nodes} nodes, which cannot be divided "
            "evenly",
            hint="process_count counts all nodes' processes: make it a multiple of node_count",
        )
    return total // nodes


def _tensorflow(job: TensorflowConfiguration, nodes: int) -> Dict[str, Any]:
    workers = _whole("worker_count", job.worker_count)
    servers = _whole("parameter_server_count", job.parameter_server_count, least=0)
    return {
        "node_count": nodes if nodes > 1 else workers,
        "distribution": {
            "type": "tensorflow",
            "worker_count": workers,
            "parameter_server_count": servers,
        },
    }


def _processes(kind: str, nodes: int, each: int) -> Dict[str, Any]:
    return {"node_count": nodes, "distribution": {"type": kind, "processes_per_node": each}}


def _whole(name: str, value: Any, least: int = 1) -> int:
    """Notebooks give numbers as text, too."""
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        raise RunConfigurationException(
            f"{name} is {value!r}, not a whole number from {least} on", hint=f"such as {name}=2"
        )
    return number
