"""A run on two machines over real sshd: they find each other, and end together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_nodes import MEET, read
from tests.e2e.test_torch import ROOT, python
from tests.homes import Home
from tests.ssh.test_targets import _pool, second
from tests.sshd import Sshd
from wherry import (
    Environment,
    Experiment,
    MpiConfiguration,
    PyTorchConfiguration,
    ScriptRunConfig,
    Workspace,
)

__all__ = ["python", "second"]


def test_processes_of_two_machines_meet_at_the_first(
    home: Home, sshd: Sshd, second: Sshd, tmp_path: Path
) -> None:
    cluster = _pool(Workspace.create("w", exist_ok=True), sshd, second)
    job = MpiConfiguration(process_count_per_node=2, node_count=2)
    run = home.submit(MEET, compute_target=cluster, distributed_job_config=job)
    assert run.wait_for_completion()["status"] == "Completed"
    logs = [read(run, f"user_logs/std_log_process_{rank}.txt", tmp_path) for rank in range(4)]
    assert logs[0] == "rank 0 of 4 total 6\n"
    assert logs[1:] == [f"rank {rank} of 4 total 0\n" for rank in (1, 2, 3)]


@pytest.mark.torch
def test_two_machines_train_one_model(
    home: Home, sshd: Sshd, second: Sshd, python: str, tmp_path: Path
) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    environment = Environment("torch")
    environment.python.interpreter_path = python
    config = ScriptRunConfig(
        str(ROOT / "examples" / "02_nodes"),
        "train.py",
        compute_target=_pool(workspace, sshd, second),
        environment=environment,
        distributed_job_config=PyTorchConfiguration(node_count=2),
    )
    run = Experiment(workspace, "nodes").submit(config)
    assert run.wait_for_completion()["status"] == "Completed"
    metrics = run.get_metrics()
    assert (metrics["total"], metrics["alike"]) == (3.0, 1)
    assert metrics["loss"] < 1e-3
    assert "on node 1" in read(run, "user_logs/std_log_process_1.txt", tmp_path)
