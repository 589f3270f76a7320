"""A node that somebody declares lost: what ends, what is refused, what happens if it is back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.control.cluster_world import TARGET, ClusterWorld
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import (
    attempt_tokens,
    computes,
    costs,
    giving_up,
    lost_machines,
    reports,
    runs,
    sites,
)
from wherry.control.lost_machines import LostMachines
from wherry.control.workers import AtOnce
from wherry.core.errors import (
    AuthenticationException,
    ConflictError,
    NotFoundError,
)
from wherry.core.lifecycle import Status
from wherry.drivers.memory import MemoryDriver
from wherry.store import attempts
from wherry.store import runs as run_rows

__all__ = ["clock"]

HOSTS = [{"address": "m1"}, {"address": "m2"}]


class LabWorld(ClusterWorld):
    """Its nodes are hosts of a pool."""

    def create(self) -> None:
        fields = {"kind": "ssh", "config": {"hosts": HOSTS, "username": "me"}}
        sites.put(self.plane, "lab", {**fields, "secrets": {"password": "secret"}})
        super().create()

    def kill(self) -> Any:
        """The host of the first node; what was started there goes on."""
        self.backend.down = True
        return self.nodes()[0]

    def look(self) -> None:
        LostMachines(self.plane, AtOnce()).look()

    def host(self, name: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = sites.show(self.plane, "lab")["hosts"]
        return next(host for host in found if host["address"] == name)


@pytest.fixture
def world(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> LabWorld:
    world = LabWorld(tmp_path, clock, location="lab")
    for module in (giving_up, lost_machines):
        monkeypatch.setattr(module, "host_driver", lambda *_: MemoryDriver(world.backend))
    return world


def running(world: LabWorld, **fields: Any) -> str:
    run_id = world.submit(**fields)
    for _ in range(3):
        world.tick()
    for attempt in world.attempts(run_id):
        world.backend.begin(attempt.id)
        reports.report(world.plane, attempt.id, {"stage": "running"})
    return run_id


def give_up(world: LabWorld, node: Any) -> None:
    giving_up.give_up_node(world.plane, "w", "cpu", node.name, "ana")


def test_its_run_fails_and_says_who_declared_it_lost(world: LabWorld) -> None:
    run_id = running(world)
    [attempt] = world.attempts(run_id)
    give_up(world, world.kill())
    shown = runs.show(world.plane, run_id)
    assert (shown.status, shown.reason) == ("Failed", "RunnerLost")
    assert shown.message.startswith("its machine m1 was declared lost by ana")
    assert world.nodes() == []
    assert world.host("m1")["state"] == "set aside"
    assert "declared lost by ana" in world.host("m1")["reason"]
    [line] = costs.every(world.plane, "w", "run")
    assert line["run_id"] == run_id
    with pytest.raises(AuthenticationException, match="declared lost"):
        attempt_tokens.check(world.plane, attempt.id, run_id)
    assert not attempt_tokens.known_good(world.plane, attempt.id)


def test_a_run_on_a_machine_that_is_silent_says_what_helps(world: LabWorld) -> None:
    run_id = running(world)
    world.kill()
    with world.plane.write() as connection:
        [attempt] = world.attempts(run_id)
        attempts.change(connection, attempt.id, {"detail": "m1 does not answer"})
        run = run_rows.get(connection, run_id, lock=True)
        run_rows.move(connection, run, Status.NOT_RESPONDING, world.plane.now())
    told = runs.show(world.plane, run_id).message
    assert told.endswith("if the machine is gone for good: wherry compute give-up cpu m1")
    runs.cancel(world.plane, run_id)
    assert runs.show(world.plane, run_id).message == f"cancel requested; {told}"


def test_its_host_is_given_to_nobody_until_it_is_back_and_cleared(world: LabWorld) -> None:
    run_id = running(world)
    [attempt] = world.attempts(run_id)
    give_up(world, world.kill())
    world.look()
    assert world.host("m1")["state"] == "set aside"
    assert attempt.id in world.backend.attempts
    world.backend.down = False
    world.look()
    assert world.host("m1")["state"] == "free"
    assert world.backend.attempts == {}
    assert runs.show(world.plane, run_id).status == "Failed"
    assert set(world.backend.starts.values()) == {1}


def test_one_of_which_nobody_knows_whether_it_was_started_is_cleared_too(world: LabWorld) -> None:
    run_id = running(world)
    [attempt] = world.attempts(run_id)
    with world.plane.write() as connection:
        attempts.change(connection, attempt.id, {"handle": None})
    give_up(world, world.kill())
    world.backend.down = False
    world.look()
    assert world.backend.attempts == {}


def test_a_cluster_that_is_deleted_goes_when_its_lost_node_does(world: LabWorld) -> None:
    run_id = running(world)
    node = world.kill()
    computes.remove(world.plane, "w", "cpu", cancel=True)
    world.tick()
    assert not computes.finish_removal(world.plane, TARGET)
    give_up(world, node)
    assert computes.finish_removal(world.plane, TARGET)
    assert world.status(run_id) == "Canceled"
    world.backend.down = False
    world.look()
    assert world.backend.attempts == {}


def test_one_of_two_nodes_ends_the_other_and_is_named(world: LabWorld) -> None:
    run_id = running(world, node_count=2)
    node = world.kill()
    give_up(world, node)
    world.backend.down = False
    for _ in range(5):
        world.tick()
    shown = runs.show(world.plane, run_id)
    assert shown.status == "Failed"
    assert "its machine m1 was declared lost by ana" in shown.message


def test_what_answers_or_is_no_other_machine_is_not_lost(world: LabWorld) -> None:
    running(world)
    with pytest.raises(ConflictError, match="answers: it is not lost"):
        give_up(world, world.nodes()[0])
    with pytest.raises(NotFoundError, match="has no node 'nowhere'"):
        giving_up.give_up_node(world.plane, "w", "cpu", "nowhere", "ana")
    with pytest.raises(ConflictError, match="one by one"):
        giving_up.detach_lost(world.plane, "w", "cpu", "ana")
    assert len(world.nodes()) == 1


def test_a_part_of_this_machine_is_not_lost(tmp_path: Path, clock: Clock) -> None:
    world = ClusterWorld(tmp_path, clock)
    world.submit()
    world.tick()
    with pytest.raises(ConflictError, match="a part of this machine"):
        giving_up.give_up_node(world.plane, "w", "cpu", world.nodes()[0].name, "ana")
