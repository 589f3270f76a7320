"""Machines and pools made targets as users do it, over real SSH servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import sshd as servers
from tests.homes import Home, wait_until
from tests.sshd import Sshd
from wherry import Experiment, Run, ScriptRunConfig, Workspace
from wherry.cli.app import run as wherry
from wherry.compute import (
    AmlCompute,
    ComputeTarget,
    ComputeTargetException,
    DsvmCompute,
    RemoteCompute,
)

SCRIPT = """
import os, sys
from wherry import Run
print("at home in", os.environ["HOME"])
Run.get_context().log("loss", 0.5)
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("m")
"""


@pytest.fixture
def ws(home: Home) -> Workspace:
    return Workspace.create("lab", exist_ok=True)


def submitted(home: Home, ws: Workspace, target: object) -> Run:
    home.script(SCRIPT)
    config = ScriptRunConfig(str(home.source), "train.py", compute_target=target)
    return Experiment(ws, "seeds").submit(config)


def test_a_machine_is_attached_by_its_key(
    home: Home, ws: Workspace, sshd: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    dsvm_compute = RemoteCompute.attach(
        ws,
        name="attach-dsvm",
        username=servers.user(),
        address=sshd.address,
        ssh_port=sshd.port,
        private_key_file=str(sshd.folder / "key"),
    )
    dsvm_compute.wait_for_completion(show_output=True)
    assert capsys.readouterr().out.endswith(
        'Provisioning operation finished, operation "Succeeded"\n'
    )
    assert sshd.host_key in str(dsvm_compute.serialize())
    assert "PRIVATE KEY" not in str(dsvm_compute.serialize())
    assert dsvm_compute.check()["host_key"] == sshd.host_key
    wait_until(lambda: ComputeTarget(ws, "attach-dsvm").resources.cpu >= 1)
    run = submitted(home, ws, dsvm_compute)
    run.wait_for_completion(show_output=True)
    assert f"at home in {sshd.home}" in capsys.readouterr().out
    assert run.get_metrics() == {"loss": 0.5}
    assert "outputs/model.txt" in run.get_file_names()
    dsvm_compute.detach()
    dsvm_compute.wait_for_completion(is_delete_operation=True)
    assert list(ws.compute_targets) == ["local"]


def test_a_machine_is_attached_by_a_password(
    home: Home,
    ws: Workspace,
    open_folder: Path,
    throwaway_user: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, password = throwaway_user
    with servers.serving(open_folder, options={"PasswordAuthentication": "yes"}) as sshd:
        sshd.home.chmod(0o777)
        place: dict[str, Any] = {
            "name": "attach-dsvm",
            "address": sshd.address,
            "ssh_port": sshd.port,
        }
        refused = RemoteCompute.attach(ws, username=name, password="wrong", **place)
        with pytest.raises(ComputeTargetException, match=f"refused user '{name}': a password was"):
            refused.wait_for_completion(show_output=True)
        assert capsys.readouterr().out.endswith("Failed\n")
        run = submitted(home, ws, refused)
        wait_until(lambda: "'attach-dsvm', which cannot be used: " in _message(run))
        dsvm_compute = RemoteCompute.attach(ws, username=name, password=password, **place)
        dsvm_compute.wait_for_completion(show_output=True)
        assert run.wait_for_completion()["status"] == "Completed"
        dsvm_compute.detach()
        dsvm_compute.wait_for_completion(is_delete_operation=True)


def _message(run: Run) -> str:
    return str(run.get_detailed_status()["details"])


def test_a_machine_that_is_made_is_a_host_of_the_pool_for_as_long_as_it_is_there(
    home: Home, ws: Workspace, sshd: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    host = f"{servers.user()}@{sshd.address}:{sshd.port}"
    site = ["site", "create", "lab", "--host", host, "--key", str(sshd.folder / "key")]
    assert wherry(site) == 0
    config = DsvmCompute.provisioning_configuration(location="lab", ssh_port=2222)
    machine = DsvmCompute.create(ws, "mydsvm", config)
    assert isinstance(machine, DsvmCompute)
    machine.wait_for_completion(show_output=True)
    assert "ssh_port 2222 means nothing at site 'lab'" in capsys.readouterr().err
    assert (machine.address, machine.ssh_port) == (sshd.address, sshd.port)
    (taken,) = ws._client.get("/sites/lab")["hosts"]
    assert (taken["state"], taken["target"]) == ("taken", "lab/mydsvm")
    other = AmlCompute.provisioning_configuration(location="lab", max_nodes=1)
    AmlCompute.create(ws, "other", other)
    waiting = submitted(home, ws, "other")
    wait_until(lambda: "mydsvm has 1 node there" in _message(waiting))
    assert submitted(home, ws, machine).wait_for_completion()["status"] == "Completed"
    assert waiting.get_status() == "Queued"  # nobody else gets it, idle or not
    said = ["compute", "connect-ssh", "mydsvm", "-w", "lab", "--print", "-i", "k", "--", "true"]
    assert wherry(said) == 0
    assert capsys.readouterr().out.startswith(f"ssh -p {sshd.port} -i k -F ")
    machine.delete()
    machine.wait_for_completion(is_delete_operation=True)
    assert waiting.wait_for_completion()["status"] == "Completed"


def test_a_pool_gives_its_hosts_to_a_cluster(
    home: Home, ws: Workspace, sshd: Sshd, own_sshd: Sshd
) -> None:
    own_sshd.start()
    own_sshd.folder.joinpath("authorized_keys").write_text((sshd.folder / "key.pub").read_text())
    hosts = [f"{servers.user()}@{each.address}:{each.port}" for each in (sshd, own_sshd)]
    key = str(sshd.folder / "key")
    made = ["site", "create", "pool", "--host", hosts[0], "--host", hosts[1], "--key", key, "-q"]
    assert wherry(made) == 0
    config = AmlCompute.provisioning_configuration(location="pool", max_nodes=2)
    cluster = ComputeTarget.create(ws, "lab-cpu", config)
    assert isinstance(cluster, AmlCompute)
    runs = [submitted(home, ws, cluster) for _ in range(3)]
    for run in runs:
        assert run.wait_for_completion()["status"] == "Completed"
    addresses = {node["publicIpAddress"] for node in cluster.list_nodes()}
    assert addresses <= {sshd.address, own_sshd.address}
    assert addresses
    cluster.delete()
    cluster.wait_for_completion(is_delete_operation=True)
    assert wherry(["site", "delete", "pool", "--yes", "-q"]) == 0
