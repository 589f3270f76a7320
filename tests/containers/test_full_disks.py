"""An engine whose disk is really full: it is told, nothing is left, and all goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import sshd
from tests.containers.test_machines import left, machine, put_site
from tests.containers.test_sites import cluster
from tests.homes import Home, wait_until
from tests.podman import BASE, Podman, SmallDisk, on_a_small_disk
from wherry import RunConfiguration, Workspace

pytestmark = pytest.mark.containers

HELLO = "print('hello')\n"


@pytest.fixture
def disk(podman: Podman) -> Iterator[SmallDisk]:
    with on_a_small_disk("256m") as disk:
        if disk is None:
            pytest.skip("this machine does not let the test mount a small disk")
        yield disk


@pytest.fixture
def boxes(home: Home, disk: SmallDisk) -> Workspace:
    put_site(disk.podman)
    return Workspace.create("w", exist_ok=True)


def trouble(made: Any) -> str:
    made.get_status()
    return str(made.problem)


def test_nodes_wait_for_room_and_are_made_then(
    home: Home, boxes: Workspace, disk: SmallDisk
) -> None:
    made = cluster(boxes, "c1", max_nodes=1)
    disk.fill()
    run = home.submit(HELLO, compute_target="c1")
    wait_until(lambda: "disk of the container engine of site 'boxes' is full" in trouble(made))
    assert left(disk.podman) == ([], [])
    assert run.get_status() == "Queued"
    disk.make_room()
    run.wait_for_completion()
    assert run.get_status() == "Completed"
    made.delete()
    wait_until(lambda: left(disk.podman) == ([], []))


def test_a_machine_waits_for_room_and_is_made_then(
    home: Home, boxes: Workspace, disk: SmallDisk
) -> None:
    if sshd.missing():
        pytest.skip(sshd.missing())
    disk.fill()
    made = machine(boxes)
    wait_until(lambda: "disk" in trouble(made) and "full" in trouble(made))
    assert left(disk.podman)[0] == []
    disk.make_room()
    wait_until(lambda: not made.get_status().errors)
    made.wait_for_completion()
    run = home.submit(HELLO, compute_target="mydsvm")
    run.wait_for_completion()
    made.delete()
    made.wait_for_completion(is_delete_operation=True)
    assert left(disk.podman) == ([], [])


def test_a_container_instance_says_so_and_the_next_one_runs(
    home: Home, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", disk.podman.host)
    monkeypatch.setenv("WHERRY_CONTAINER_IMAGE", BASE)
    run_config = RunConfiguration()
    run_config.target = "containerinstance"
    disk.fill()
    run = home.submit(HELLO, run_config=run_config)
    run.wait_for_completion(raise_on_error=False)
    message = run.get_details()["error"]["error"]["message"]
    assert "the disk of podman" in message
    assert "make room there" in message
    assert disk.podman.left_after(120) == ""
    disk.make_room()
    run = home.submit(HELLO, run_config=run_config)
    run.wait_for_completion()
    assert disk.podman.left_after(120) == ""
