"""GPUs of machines over SSH, as a fake ``nvidia-smi`` on the machine's path tells of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.homes import Home, wait_until
from tests.sshd import Sshd, user
from wherry import Run, RunConfiguration, Workspace
from wherry.compute import AmlCompute, ComputeTarget, RemoteCompute
from wherry.core.errors import UserErrorException
from wherry.core.resources import Resources
from wherry.drivers import gpus

FAKE = """\
#!/bin/sh
case "$*" in
  *--query-gpu=index,uuid,name,memory.total*)
    echo "0, GPU-11111111-aaaa-bbbb-cccc-000000000000, NVIDIA GeForce RTX 3090, 24576"
    echo "1, GPU-22222222-aaaa-bbbb-cccc-000000000000, NVIDIA GeForce RTX 3090, 24576" ;;
  *) exit 2 ;;
esac
"""
# Two that wait for each other have their GPUs at the same time.
TOGETHER = """\
import os, pathlib, time
mine = os.environ["CUDA_VISIBLE_DEVICES"]
print(mine, flush=True)
folder = pathlib.Path(os.environ["MEETING"])
(folder / mine).touch()
while len(list(folder.iterdir())) < 2:
    time.sleep(0.05)
"""
SHOW = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'] or 'none')"


@pytest.fixture
def machine(own_sshd: Sshd, tmp_path: Path) -> Sshd:
    """With two GPUs, as far as it says."""
    if gpus._load() is not None:
        pytest.skip("this machine has a driver, which is asked before the fake")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(FAKE)
    (programs / "nvidia-smi").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    own_sshd.start({"SetEnv": f"HOME={own_sshd.home} WHERRY_CACHE={own_sshd.cache} PATH={path}"})
    return own_sshd


def test_runs_on_a_machine_share_its_gpus(home: Home, machine: Sshd, tmp_path: Path) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    key = str(machine.folder / "key")
    RemoteCompute.attach(
        workspace,
        "vm",
        username=user(),
        address=machine.address,
        ssh_port=machine.port,
        private_key_file=key,
    ).wait_for_completion()
    wait_until(lambda: _nodes(workspace, "vm")[0]["gpu"] == 2)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    both = [_submit(home, TOGETHER, "vm", 1, {"MEETING": str(meeting)}) for _ in range(2)]
    assert sorted(map(_said, both)) == ["0", "1"]
    assert _said(_submit(home, SHOW, "vm", 0)) == "none"
    assert _said(_submit(home, SHOW, "vm", 2)) == "0,1"


def test_a_host_of_a_pool_gives_the_gpus_that_are_found_to_its_run(
    home: Home, machine: Sshd
) -> None:
    workspace = _pool(machine)
    assert _said(_submit(home, SHOW, "pool", 1)) == "0,1"
    assert _nodes(workspace, "pool")[0]["gpu"] == 2
    assert workspace.get_sites()[1]["hosts"][0]["gpu"] == 2
    with pytest.raises(UserErrorException, match="it asks for 1 CPU, 3 GPUs, its nodes have"):
        _submit(home, SHOW, "pool", 3)


def test_a_host_that_has_less_than_a_run_asks_for_is_found_out_by_it(
    home: Home, machine: Sshd
) -> None:
    _pool(machine)
    run = _submit(home, SHOW, "pool", 3)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    assert "it asks for 1 CPU, 3 GPUs, its nodes have" in str(run.get_details()["error"])


def test_a_host_of_a_pool_gives_no_more_gpus_than_are_declared(home: Home, machine: Sshd) -> None:
    workspace = _pool(machine, gpus=1)
    assert _said(_submit(home, SHOW, "pool", 1)) == "0"
    assert _nodes(workspace, "pool")[0]["gpu"] == 1


def _pool(machine: Sshd, **declared: int) -> Workspace:
    workspace = Workspace.create("w", exist_ok=True)
    host = {"address": machine.address, "port": machine.port, **declared}
    site = {
        "kind": "ssh",
        "config": {"hosts": [host], "username": user()},
        "secrets": {"private_key": machine.key},
    }
    workspace._client.request("PUT", "/sites/lab", json=site)
    config = AmlCompute.provisioning_configuration(location="lab", max_nodes=1)
    ComputeTarget.create(workspace, "pool", config)
    return workspace


def _submit(
    home: Home, code: str, target: str, count: int, variables: dict[str, str] | None = None
) -> Run:
    config = RunConfiguration()
    config.target = target
    config.resources = Resources(gpu=count)
    config.environment_variables = variables or {}
    return home.submit(code, run_config=config)


def _nodes(workspace: Workspace, target: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workspace._client.get(f"/workspaces/w/computes/{target}")["nodes"]
    return found or [{"gpu": None}]


def _said(run: Run) -> str:
    run.wait_for_completion()
    return str(run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]).strip()
