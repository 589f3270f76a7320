"""Hosts of a pool that go away, over real sshd: nobody waits for them, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.homes import Home, wait_until
from tests.ssh.test_targets import _attach, _log, _pool, second
from tests.sshd import Sshd, make_key
from wherry import Run, Workspace
from wherry.core.errors import ComputeTargetException, ConflictError
from wherry.sdk.compute.amlcompute import AmlCompute

__all__ = ["second"]

WHERE = "import os; print(os.environ['HOME'])"
WORK = """
import os, time
open(os.environ['HOME'] + '/works', 'w').write(str(os.getpid()))
time.sleep(600)
"""


def die(sshd: Sshd) -> None:
    """As a host whose cable is pulled; what runs there runs on."""
    sessions = [each for one in sshd.sessions() for each in (one, *one.children())]
    sshd.stop()
    for process in sessions:
        with suppress(psutil.Error):
            if "sshd" in process.name():
                process.kill()


def idle_pool(home: Home, *hosts: Sshd) -> AmlCompute:
    """A pool whose hosts are idle nodes."""
    cluster = _pool(Workspace.create("w", exist_ok=True), *hosts)
    cluster.update(min_nodes=len(hosts), idle_seconds_before_scaledown=600)
    wait_until(lambda: node_states(cluster) == ["idle"] * len(hosts))
    return cluster


def node_states(cluster: AmlCompute) -> list[str]:
    return sorted(str(node["nodeState"]) for node in cluster.list_nodes())


@pytest.mark.ssh
def test_runs_go_to_the_hosts_that_answer(home: Home, sshd: Sshd, second: Sshd) -> None:
    cluster = idle_pool(home, sshd, second)
    die(second)
    made = [home.submit(WHERE, compute_target="pool") for _ in range(3)]
    for run in made:
        run.wait_for_completion()
        assert _log(run) == [str(sshd.home)]
    wait_until(lambda: "unusable" in node_states(cluster))
    cluster.refresh_state()
    assert "127.0.0.4" in str(cluster.problem)
    assert cluster.workspace.get_sites()[1]["hosts"][1]["state"] == "unreachable"
    second.start()
    wait_until(lambda: node_states(cluster) == ["idle", "idle"])
    cluster.refresh_state()
    assert cluster.problem is None


def wherry(*words: str) -> None:
    program = Path(sys.executable).with_name("wherry")
    subprocess.run([program, "-w", "w", *words], check=True)


def working(home: Home, sshd: Sshd, target: str) -> tuple[Run, psutil.Process]:
    """A run on the host, and its command there."""
    run = home.submit(WORK, compute_target=target)
    noted = sshd.home / "works"
    wait_until(lambda: noted.exists() and noted.read_text())
    wait_until(lambda: run.get_status() == "Running")
    return run, psutil.Process(int(noted.read_text()))


def cleared(sshd: Sshd) -> bool:
    """Whether no attempt has left anything there."""
    return not [each for each in sshd.home.glob(".wherry-node/*/*-*") if each.is_dir()]


def test_a_node_that_is_given_up_is_cleared_when_it_is_back(home: Home, own_sshd: Sshd) -> None:
    own_sshd.start()
    workspace = Workspace.create("w", exist_ok=True)
    cluster = _pool(workspace, own_sshd)
    run, process = working(home, own_sshd, "pool")
    with pytest.raises(ConflictError, match="it is not lost"):
        cluster.give_up_node("127.0.0.3")
    die(own_sshd)
    wherry("compute", "give-up", "pool", "127.0.0.3", "--yes")
    details = run.get_details()
    assert details["status"] == "Failed"
    assert (
        "its machine 127.0.0.3 was declared lost by owner" in details["error"]["error"]["message"]
    )
    assert process.is_running()
    cluster.delete()
    wait_until(lambda: "pool" not in workspace.compute_targets)
    [host] = workspace._client.get("/sites/lab")["hosts"]
    assert host["state"] == "set aside"
    own_sshd.start()
    wait_until(lambda: workspace._client.get("/sites/lab")["hosts"][0]["state"] == "free")
    wait_until(lambda: not process.is_running())
    assert cleared(own_sshd)
    assert run.get_status() == "Failed"


def test_a_machine_that_is_lost_can_be_detached(home: Home, own_sshd: Sshd) -> None:
    own_sshd.start()
    workspace = Workspace.create("w", exist_ok=True)
    machine = _attach(workspace, own_sshd)
    machine.wait_for_completion()
    run, process = working(home, own_sshd, "vm")
    with pytest.raises(ConflictError, match="it is not lost"):
        machine.detach(force=True)
    die(own_sshd)
    machine.detach(force=True)
    wait_until(lambda: "vm" not in workspace.compute_targets)
    assert run.get_status() == "Failed"
    own_sshd.start()
    wait_until(lambda: not process.is_running())
    wait_until(lambda: cleared(own_sshd))


@pytest.fixture
def full_host(sshd: Sshd, tmp_path: Path) -> Iterator[Sshd]:
    """A host with a disk of its own, which can be filled."""
    host = Sshd(tmp_path / "second", "127.0.0.4", sshd.cache)
    (host.folder / "authorized_keys").write_text((sshd.folder / "key.pub").read_text())
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(host.home)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    host.start()
    yield host
    host.drop()
    host.stop()
    subprocess.run(["umount", "--lazy", str(host.home)], check=True)


@pytest.mark.ssh
def test_runs_go_where_the_disk_is_not_full(home: Home, sshd: Sshd, full_host: Sshd) -> None:
    cluster = idle_pool(home, sshd, full_host)
    with suppress(OSError), (full_host.home / "rubbish").open("wb") as file:
        while True:
            file.write(b" " * 65536)
    made = [home.submit(WHERE, compute_target="pool") for _ in range(3)]
    for run in made:
        run.wait_for_completion()
        assert _log(run) == [str(sshd.home)]
    wait_until(lambda: "unusable" in node_states(cluster))
    cluster.refresh_state()
    assert "No space left on device" in str(cluster.problem) or "full" in str(cluster.problem)
    (full_host.home / "rubbish").unlink()
    wait_until(lambda: node_states(cluster) == ["idle", "idle"])


def refuse(sshd: Sshd) -> None:
    """It has another opinion of who may come in."""
    (sshd.folder / "authorized_keys").write_text("")
    die(sshd)
    sshd.start()


def heal(sshd: Sshd) -> None:
    (sshd.folder / "authorized_keys").write_text((sshd.folder / "key.pub").read_text())


def test_a_machine_that_is_healed_is_used_at_once_after_a_check(home: Home, own_sshd: Sshd) -> None:
    own_sshd.start()
    machine = _attach(Workspace.create("w", exist_ok=True), own_sshd)
    machine.wait_for_completion()
    wait_until(own_sshd.sessions)
    refuse(own_sshd)
    wait_until(own_sshd.refusals)
    run = home.submit(WHERE, compute_target="vm")
    with pytest.raises(ComputeTargetException, match="refused user"):
        machine.check()
    heal(own_sshd)
    machine.check()
    wait_until(lambda: run.get_status() == "Completed")  # which is less than the pause


@pytest.mark.ssh
def test_a_host_whose_new_key_the_site_knows_is_used_at_once(home: Home, own_sshd: Sshd) -> None:
    own_sshd.start()
    cluster = idle_pool(home, own_sshd)
    make_key(own_sshd.folder / "host_key")
    die(own_sshd)
    own_sshd.start()
    run = home.submit(WHERE, compute_target="pool")
    wait_until(lambda: node_states(cluster) == ["unusable"])
    cluster.refresh_state()
    assert "host key" in str(cluster.problem)
    known = {"address": own_sshd.address, "port": own_sshd.port, "host_key": own_sshd.host_key}
    cluster.workspace._client.patch("/sites/lab", json={"config": {"hosts": [known]}})
    wait_until(lambda: run.get_status() == "Completed")
