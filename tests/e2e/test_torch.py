"""A real training by several processes on two nodes: ``make torch``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.homes import Home
from wherry import Environment, Experiment, PyTorchConfiguration, ScriptRunConfig, Workspace
from wherry.compute import AmlCompute, ComputeTarget

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0"


@pytest.fixture(scope="session")
def python() -> str:
    """An interpreter with PyTorch, kept between calls and apart from the project's own."""
    folder = ROOT / ".tools" / "torch"
    if not folder.exists():
        uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
        part = folder.with_suffix(".part")
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, part], check=True)
        into = ["--python", str(part / "bin" / "python")]
        subprocess.run([uv, "pip", "install", "-q", *into, TORCH, "numpy"], check=True)
        part.rename(folder)
    return str(folder / "bin" / "python")


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_on_two_nodes_train_one_model(home: Home, python: str, processes: int) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    wanted = AmlCompute.provisioning_configuration(vm_size="local-1", max_nodes=2)
    environment = Environment("torch")
    environment.python.interpreter_path = python
    config = ScriptRunConfig(
        str(ROOT / "examples" / "02_nodes"),
        "train.py",
        compute_target=ComputeTarget.create(workspace, "duo", wanted),
        environment=environment,
        distributed_job_config=PyTorchConfiguration("Gloo", processes, 2),
    )
    run = Experiment(workspace, "nodes").submit(config)
    assert run.wait_for_completion()["status"] == "Completed"
    metrics = run.get_metrics()
    assert metrics["total"] == sum(range(1, processes + 1))
    assert metrics["alike"] == 1
    assert metrics["loss"] < 1e-3
    assert "outputs/model.pt" in run.get_file_names()
