"""Reconcilers come and go with compute targets, also where two servers share a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import wait_until
from tests.planes import add_snapshot, make_plane, run_fields
from wherry.control import computes, runs
from wherry.control.plane import Plane
from wherry.control.submit import submit
from wherry.control.targets import Targets
from wherry.core.resources import Resources
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.store import leases

CLUSTER = {"type": "AmlCompute", "config": {"max_nodes": 2, "vm_size": "local-1"}}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    backend = MemoryBackend(resources=Resources(4, 4 << 30, 0))
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver(backend)})
    yield plane
    plane.close()


def test_a_new_target_is_looked_after_and_a_deleted_one_no_more(plane: Plane) -> None:
    targets = Targets(plane)
    targets.start()
    try:
        assert list(plane.drivers) == ["local"]
        computes.put(plane, "w", "cpu", CLUSTER)
        wait_until(lambda: "w/cpu" in plane.drivers)
        snapshot = add_snapshot(plane, {"train.py": b""})
        fields = run_fields(snapshot, target="cpu", command=["/bin/sh", "-c", "true"], script="")
        run, _ = submit(plane, "w", fields, "me")
        wait_until(lambda: runs.show(plane, run.id).status == "Completed")
        computes.remove(plane, "w", "cpu", cancel=True)
        wait_until(lambda: "w/cpu" not in plane.drivers)
        assert [each["name"] for each in computes.every(plane, "w")] == ["local"]
    finally:
        targets.stop()


def test_the_next_server_finds_the_targets_of_the_one_before(plane: Plane) -> None:
    computes.put(plane, "w", "cpu", CLUSTER)
    for _ in range(2):
        targets = Targets(plane)
        targets.look()
        assert set(plane.drivers) == {"local", "w/cpu"}
        targets._drop("w/cpu")
        plane.drivers = {"local": plane.drivers["local"]}


def test_of_two_servers_one_works_on_a_target(plane: Plane) -> None:
    """The other one has the target too, and waits for the lease."""
    computes.put(plane, "w", "cpu", CLUSTER)
    with plane.write() as connection:
        assert leases.claim(connection, "target:w/cpu", "another server", plane.now(), 3600)
    targets = Targets(plane)
    targets.look()
    computes.change(plane, "w", "cpu", {"config": {"min_nodes": 1}})
    reconciler = targets._reconcilers["w/cpu"]
    reconciler.tick()
    assert computes.list_nodes(plane, "w", "cpu") == []
    with plane.write() as connection:
        leases.drop(connection, "target:w/cpu", "another server")
    reconciler.tick()
    wait_until(lambda: len(computes.list_nodes(plane, "w", "cpu")) == 1)
    computes.change(plane, "w", "cpu", {"config": {"min_nodes": 0}})
    targets.stop()


def test_what_takes_the_place_and_name_of_another_has_a_driver_of_its_own(plane: Plane) -> None:
    targets = Targets(plane)
    computes.put(plane, "w", "cpu", CLUSTER)
    targets.look()
    first = plane.drivers["w/cpu"]
    targets.look()
    assert plane.drivers["w/cpu"] is first
    for fields in (CLUSTER, {"type": "ComputeInstance", "config": {}}):
        assert computes.remove(plane, "w", "cpu", cancel=False)
        computes.put(plane, "w", "cpu", fields)
        targets.look()
        assert plane.drivers["w/cpu"] is not first
        first = plane.drivers["w/cpu"]
    targets.stop()
