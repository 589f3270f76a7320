"""Hosts of a pool that go away, over real sshd: nobody waits for them, nothing is lost."""

from __future__ import annotations

from contextlib import suppress

import psutil
import pytest

from tests.homes import Home, wait_until
from tests.ssh.test_targets import _log, _pool, second
from tests.sshd import Sshd
from wherry import Workspace
from wherry.sdk.compute.amlcompute import AmlCompute

__all__ = ["second"]

WHERE = "import os; print(os.environ['HOME'])"


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
    second.start()
    wait_until(lambda: node_states(cluster) == ["idle", "idle"])
    cluster.refresh_state()
    assert cluster.problem is None
