"""Machines that are made and stay, of a site in memory: whoever makes, lists and removes machines
can be one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.unit.control.cluster_world import TARGET, ClusterWorld, MemorySite, dies_everywhere
from tests.unit.control.crashing import Fuse
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import computes, costs, giving_up, sites, ssh_access
from wherry.core.errors import (
    ConflictError,
    NotFoundError,
    TargetUnavailableError,
    UserErrorException,
)
from wherry.core.vm_sizes import Size
from wherry.drivers.base import Driver, Reach
from wherry.drivers.sites import Machine

__all__ = ["clock"]


class Account(MemorySite):
    """An engine in somebody's cloud, say. Its machines may fall asleep."""

    _world: MachineWorld

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        self._world.asleep.discard(node_id)
        return super().make(node_id, size, home)

    def driver(self, node_id: str, machine: Machine) -> Driver:
        found: Any = Asleep(super().driver(node_id, machine), lambda: node_id in self._world.asleep)
        return found  # type: ignore[no-any-return]


class Asleep:
    """A driver of a machine that may have stopped, with all that lies on it."""

    def __init__(self, driver: Driver, asleep: Callable[[], bool]) -> None:
        self._driver = driver
        self._asleep = asleep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def reach(self, node: str = "") -> Reach | None:
        del node
        return None

    def check(self) -> Any:
        self._awake()
        return self._driver.check()

    def submit(self, launch: Any) -> Any:
        self._awake()
        return self._driver.submit(launch)

    def _awake(self) -> None:
        if self._asleep():
            raise TargetUnavailableError("m1 has stopped", cause="stopped", unsent=True)


class MachineWorld(ClusterWorld):
    type = "VirtualMachine"

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.asleep: set[str] = set()
        one = {"min_nodes": 1, "max_nodes": 1, "idle_seconds": 0}
        super().__init__(folder, clock, location="account", **one)

    def create(self) -> None:
        config = {"engine": "unix:///nowhere.sock"}
        sites.put(self.plane, "account", {"kind": "container", "config": config})
        super().create()

    def site(self, fuse: Fuse) -> MemorySite:
        return Account(self, fuse)


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> MachineWorld:
    return MachineWorld(tmp_path, clock)


def finish(world: MachineWorld, run_id: str) -> str:
    for _ in range(10):
        world.tick()
        attempts = world.attempts(run_id)
        if attempts and attempts[-1].id in world.backend.attempts:
            break
    world.begin(run_id)
    world.finish(run_id)
    return world.settle(run_id)


def test_a_machine_is_made_used_and_deleted(world: MachineWorld) -> None:
    world.tick()
    assert (len(world.there), len(world.homes)) == (1, 1)
    assert finish(world, world.submit()) == "Completed"
    world.watch(3600)
    assert len(world.there) == 1  # it stays
    (cost,) = costs.every(world.plane, "w", "target")
    assert cost["cost"] > 3.5
    delete(world)
    assert (world.there, world.homes, world.nodes()) == ({}, set(), [])


def test_what_is_kept_for_a_machine_outlives_its_stop(world: MachineWorld) -> None:
    world.tick()
    kept = set(world.homes)
    computes.act(world.plane, "w", "cpu", "stop")
    world.watch(60)
    assert (world.there, world.homes) == ({}, kept)
    computes.act(world.plane, "w", "cpu", "start")
    world.watch(60)
    assert len(world.there) == 1
    computes.act(world.plane, "w", "cpu", "stop")
    world.watch(60)
    delete(world)
    assert world.homes == set()


def test_a_machine_that_has_stopped_is_started_again_for_a_run(world: MachineWorld) -> None:
    world.tick()
    world.asleep.update(world.there)
    assert finish(world, world.submit()) == "Completed"
    assert set(world.made.values()) == {1}


def test_a_machine_that_has_stopped_is_started_again_by_itself(
    world: MachineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherry.control.scaling._CHECK_EVERY_S", 0.0)
    run_id = world.submit()
    world.tick()
    world.tick()
    world.begin(run_id)
    world.asleep.update(world.there)
    world.tick()
    assert world.asleep == set()
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"


def test_what_a_site_does_is_told(world: MachineWorld) -> None:
    world.broken = "the account is empty"
    world.tick()
    (node,) = world.nodes()
    world.plane.doings[node.id] = "building the image"
    assert world.show()["doing"] == "building the image"
    world.broken = ""
    world.watch(60)
    assert world.show()["doing"] is None


def test_a_machine_of_an_engine_that_is_gone_for_good_is_given_up(world: MachineWorld) -> None:
    world.tick()
    world.tick()
    (node,) = world.nodes()
    giving_up.give_up_node(world.plane, "w", "cpu", node.id, "me")
    world.watch(60)
    assert [each.id for each in world.nodes()] == list(world.there) != [node.id]
    computes.remove(world.plane, "w", "cpu", cancel=True)
    giving_up.give_up_node(world.plane, "w", "cpu", next(iter(world.there)), "me")
    assert computes.finish_removal(world.plane, TARGET)  # though its home cannot be removed


def test_a_certificate_is_for_machines_that_were_made_with_containers(world: MachineWorld) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    given = ssh_access.certificate(world.plane, "w", "cpu", key, 300, "me")
    assert given["certificate"].startswith("ssh-ed25519-cert-v01@openssh.com ")
    computes.put(world.plane, "w", "c1", {"type": "AmlCompute", "config": {"max_nodes": 1}})
    with pytest.raises(ConflictError, match="no machine that this server has made"):
        ssh_access.certificate(world.plane, "w", "c1", key, 300, "me")
    with pytest.raises(UserErrorException, match="no public key"):
        ssh_access.certificate(world.plane, "w", "cpu", "secret", 300, "me")


def test_a_machine_is_one(world: MachineWorld) -> None:
    for changes in ({"max_nodes": 2}, {"min_nodes": 0}):
        with pytest.raises(UserErrorException, match="is one machine"):
            computes.change(world.plane, "w", "cpu", {"config": changes})
    config = {"min_nodes": 1, "max_nodes": 1, "vm_priority": "lowpriority"}
    fields = {"type": "VirtualMachine", "kind": "cluster", "config": config}
    with pytest.raises(UserErrorException, match="a machine is dedicated"):
        computes.put(world.plane, "w", "m1", fields)
    fields = {"type": "AmlCompute", "config": {"max_nodes": 1, "ssh_port": 22}}
    with pytest.raises(UserErrorException, match="have no ssh_port"):
        computes.put(world.plane, "w", "m1", fields)
    config = {**world.show()["config"], "ssh_port": 2222}
    fields = {"type": "VirtualMachine", "kind": "cluster", "config": config}
    with pytest.raises(ConflictError, match="another one"):
        computes.put(world.plane, "w", "cpu", fields)


def delete(world: MachineWorld) -> None:
    with suppress(NotFoundError):
        computes.remove(world.plane, "w", "cpu", cancel=True)
    for _ in range(20):
        if computes.finish_removal(world.plane, TARGET):
            return
        world.tick(20)


def test_whenever_the_server_dies_a_machine_leaves_nothing(tmp_path: Path, clock: Clock) -> None:
    world = MachineWorld(tmp_path, clock)

    def act() -> None:
        world.tick()
        delete(world)

    def gone() -> None:
        assert (world.there, world.homes, world.nodes()) == ({}, set(), [])
        assert computes.finish_removal(world.plane, TARGET)

    dies_everywhere(world, act, gone, again=world.create, least=5)
