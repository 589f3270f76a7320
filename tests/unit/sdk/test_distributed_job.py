"""Azure ML's ways to ask for many processes, and the one that a run is asked for with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wherry import (
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    ScriptRunConfig,
    TensorflowConfiguration,
)
from wherry.cli.job_nodes import distribution
from wherry.core.errors import RunConfigurationException


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("")
    return tmp_path


def asked(source: Path, job: Any = None, config: Any = None) -> tuple[Any, Any]:
    made = ScriptRunConfig(source, "train.py", run_config=config, distributed_job_config=job)
    spec = made.to_spec()
    return spec.get("node_count"), spec.get("distribution")


def processes(kind: str, count: int) -> dict[str, Any]:
    return {"type": kind, "processes_per_node": count}


def test_a_run_of_one_process_asks_for_nothing(source: Path) -> None:
    assert asked(source) == (None, None)


@pytest.mark.parametrize(
    ("job", "nodes", "distribution"),
    [
        (PyTorchConfiguration(node_count=2), 2, processes("pytorch", 1)),
        (PyTorchConfiguration(process_count=8, node_count=2), 2, processes("pytorch", 4)),
        (PyTorchConfiguration("Gloo", "4", "2"), 2, processes("pytorch", 2)),  # type: ignore[arg-type]
        (MpiConfiguration(), 1, processes("mpi", 1)),
        (MpiConfiguration(process_count_per_node=3, node_count=4), 4, processes("mpi", 3)),
        (
            TensorflowConfiguration(worker_count=2),
            2,
            {"type": "tensorflow", "worker_count": 2, "parameter_server_count": 1},
        ),
    ],
)
def test_a_configuration_becomes_nodes_and_processes(
    source: Path, job: Any, nodes: int, distribution: dict[str, Any]
) -> None:
    assert asked(source, job) == (nodes, distribution)


def test_the_communicator_names_the_section_that_counts(source: Path) -> None:
    config = RunConfiguration(framework="PyTorch", communicator="OpenMpi")
    config.node_count = 2
    config.mpi.process_count_per_node = 4
    assert asked(source, config=config) == (2, processes("mpi", 4))


def test_nodes_alone_are_one_process_each(source: Path) -> None:
    config = RunConfiguration()
    config.node_count = 3
    assert asked(source, config=config) == (3, None)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (PyTorchConfiguration(process_count=3, node_count=2), "3 processes on 2 nodes"),
        (MpiConfiguration(node_count=0), "node_count is 0"),
        (MpiConfiguration(process_count_per_node="many"), "process_count_per_node is 'many'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(source: Path, job: Any, said: str) -> None:
    with pytest.raises(RunConfigurationException, match=said):
        asked(source, job)


@pytest.mark.parametrize(
    ("fields", "nodes", "expected"),
    [
        ({"type": "PyTorch", "process_count_per_instance": 2}, 2, (2, processes("pytorch", 2))),
        ({"type": "mpi"}, 3, (3, processes("mpi", 1))),
        (
            {"type": "tensorflow"},
            2,
            (2, {"type": "tensorflow", "worker_count": 2, "parameter_server_count": 0}),
        ),
    ],
)
def test_a_job_file_asks_for_the_same(
    source: Path, fields: dict[str, Any], nodes: int, expected: Any
) -> None:
    config = RunConfiguration()
    config.node_count = nodes
    job = distribution(fields, {"instance_count": nodes}, "job.yml")
    assert asked(source, job, config) == expected
