"""Machines and pools over real sshd as compute targets, from attaching to deleting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import sshd as servers
from tests.homes import Home, wait_until
from tests.sshd import Sshd, make_key, user
from wherry import Workspace
from wherry.core.errors import ComputeTargetException
from wherry.sdk.compute.amlcompute import AmlCompute
from wherry.sdk.compute.machine import RemoteCompute
from wherry.sdk.compute.target import ComputeTarget

WHERE = "import os, time; print(os.environ['HOME']); time.sleep(1)"


def test_a_machine_is_attached_used_and_detached(home: Home, sshd: Sshd) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    machine = _attach(workspace, sshd)
    machine.wait_for_completion()
    assert machine.provisioning_state == "Succeeded"
    run = home.submit(WHERE, compute_target="vm")
    run.wait_for_completion()
    assert run.get_status() == "Completed"
    assert _log(run) == [str(sshd.home)]
    machine.detach()
    wait_until(lambda: "vm" not in workspace.compute_targets)


def test_what_is_wrong_with_a_machine_is_said_when_it_is_attached(
    home: Home, sshd: Sshd, tmp_path: Path
) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    make_key(tmp_path / "other")
    machine = _attach(workspace, sshd, key=tmp_path / "other")
    with pytest.raises(ComputeTargetException, match="refused user"):
        machine.wait_for_completion()
    again = _attach(workspace, sshd)
    again.wait_for_completion()
    assert again.provisioning_state == "Succeeded"


def test_a_cluster_takes_hosts_from_a_pool_and_gives_them_back(
    home: Home, sshd: Sshd, second: Sshd
) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    cluster = _pool(workspace, sshd, second)
    made = [home.submit(WHERE, compute_target="pool") for _ in range(2)]
    taken = ("taken", "w/pool")
    wait_until(lambda: taken in [(each["state"], each["target"]) for each in _hosts(workspace)])
    for run in made:
        run.wait_for_completion()
    homes = sorted(line for run in made for line in _log(run))
    assert homes == sorted([str(sshd.home), str(second.home)])
    wait_until(lambda: not cluster.list_nodes())
    pinned = workspace._client.get("/sites/lab")["config"]["hosts"]
    assert [host["host_key"] for host in pinned] == [sshd.host_key, second.host_key]
    assert {host["state"] for host in _hosts(workspace)} == {"free"}
    assert all(host["cpu"] >= 1 and host["memory_bytes"] for host in _hosts(workspace))
    cluster.delete()
    wait_until(lambda: "pool" not in workspace.compute_targets)


@pytest.mark.ssh
def test_a_host_that_shows_another_key_is_not_used_and_that_is_told(
    home: Home, sshd: Sshd, second: Sshd
) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    cluster = _pool(workspace, sshd, second)
    for run in [home.submit(WHERE, compute_target="pool") for _ in range(2)]:
        run.wait_for_completion()
    wait_until(lambda: not cluster.list_nodes())
    make_key(second.folder / "host_key")
    second.stop()
    second.start()
    made = [home.submit(WHERE, compute_target="pool") for _ in range(2)]
    for run in made:
        run.wait_for_completion()
        assert _log(run) == [str(sshd.home)]
    told = workspace._client.get("/workspaces/w/computes/pool")["problem"]
    assert "host key" in str(told)
    refused = _hosts(workspace)[1]
    assert refused["state"] == "set aside"
    assert "host key" in refused["reason"]


@pytest.fixture
def second(sshd: Sshd, tmp_path: Path) -> Iterator[Sshd]:
    """Another host, for the same user."""
    with servers.serving(tmp_path / "second", "127.0.0.4", sshd.cache) as second:
        (second.folder / "authorized_keys").write_text((sshd.folder / "key.pub").read_text())
        yield second


def _hosts(workspace: Workspace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workspace.get_sites()[1]["hosts"]
    return found


def _pool(workspace: Workspace, *hosts: Sshd) -> AmlCompute:
    listed = [{"address": each.address, "port": each.port} for each in hosts]
    site = {
        "kind": "ssh",
        "config": {"hosts": listed, "username": user()},
        "secrets": {"private_key": hosts[0].key},
    }
    workspace._client.request("PUT", "/sites/lab", json=site)
    config = AmlCompute.provisioning_configuration(
        location="lab", max_nodes=2, idle_seconds_before_scaledown=2
    )
    made = ComputeTarget.create(workspace, "pool", config)
    assert isinstance(made, AmlCompute)
    return made


def _attach(workspace: Workspace, sshd: Sshd, key: Path | None = None) -> RemoteCompute:
    return RemoteCompute.attach(
        workspace,
        "vm",
        username=user(),
        address=sshd.address,
        ssh_port=sshd.port,
        private_key_file=str(key or sshd.folder / "key"),
    )


def _log(run: object) -> list[str]:
    details = run.get_details_with_logs()  # type: ignore[attr-defined]
    return str(details["logFiles"]["user_logs/std_log.txt"]).split()
