"""Runs whose node cannot be reached when they are to start there, on a site of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.control.cluster_world import ClusterWorld, elsewhere
from tests.unit.control.test_clusters import states
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import runs
from wherry.control.reports import report
from wherry.core.errors import LaunchRefusedError, TargetUnavailableError, WherryError
from wherry.drivers.base import Handle, Launch, unsent
from wherry.store import runs as run_rows

__all__ = ["clock"]

DEAD = "m1 does not answer"


class Hosts:
    """Which nodes of the world cannot be reached; with ``doubt``, a request may have got there.

    ``refusal`` is what they say instead.
    """

    def __init__(self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.dead: set[str] = set()
        self.doubt = False
        self.refusal: WherryError | None = None
        kind = elsewhere(world)
        submit, check = kind.submit, kind.check
        monkeypatch.setattr(kind, "submit", lambda *given: self._submit(submit, *given))
        monkeypatch.setattr(kind, "check", lambda *given: self._check(check, *given))
        monkeypatch.setattr("wherry.control.scaling.time.monotonic", world.clock.monotonic)

    def _submit(self, submit: Any, driver: Any, launch: Launch) -> Handle:
        if launch.node in self.dead:
            if self.refusal is not None:
                raise self.refusal
            error = TargetUnavailableError(DEAD)
            raise error if self.doubt else unsent(error)
        handle: Handle = submit(driver, launch)
        return handle

    def _check(self, check: Any, driver: Any) -> Any:
        if self.dead and self.refusal is None:
            raise TargetUnavailableError(DEAD)
        return check(driver)


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> ClusterWorld:
    """With two nodes that are idle."""
    world = ClusterWorld(tmp_path, clock, min_nodes=2, idle_seconds=3600)
    world.watch(40)
    assert states(world) == ["idle", "idle"]
    return world


@pytest.fixture
def hosts(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(world, monkeypatch)


def kill_first(hosts: Hosts) -> Any:
    """The node that the next run is given."""
    node = sorted(hosts.world.nodes(), key=lambda node: (-node.idle_since.timestamp(), node.id))[0]
    hosts.dead = {node.id}
    return node


def test_a_run_that_never_got_to_its_node_starts_on_another(
    world: ClusterWorld, hosts: Hosts
) -> None:
    node = kill_first(hosts)
    run_id = world.submit()
    world.tick(1)
    assert world.status(run_id) == "Queued"
    shown = next(each for each in world.show()["nodes"] if each["id"] == node.id)
    assert (shown["state"], shown["reason"]) == ("unusable", DEAD)
    assert DEAD in world.show()["problem"]
    world.tick(1)
    assert world.status(run_id) == "Starting"
    first, second = world.attempts(run_id)
    assert (first.node_id, second.node_id != node.id) == (node.id, True)
    assert set(world.backend.starts.values()) == {1}
    with world.plane.database.read() as connection:
        run = run_rows.get(connection, run_id)
        told = run_rows.history(connection, run_id)[-2]
    assert (told.to_status, told.reason) == ("Queued", "NodeUnusable")
    assert told.message == (
        f"its node {node.name} could not start it ({DEAD}); nothing of it was executed, "
        "and it waits for another start"
    )
    assert run.preemptions == 1
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"


def test_a_node_is_of_use_again_when_its_host_answers(world: ClusterWorld, hosts: Hosts) -> None:
    kill_first(hosts)
    world.broken = DEAD
    run_id = world.submit()
    for _ in range(4):
        world.tick(15)
    assert states(world) == ["running", "unusable"]
    hosts.dead, world.broken = set(), ""
    world.watch(60)
    assert states(world) == ["idle", "running"]
    assert world.show()["problem"] is None
    assert world.status(run_id) == "Starting"


def test_where_it_may_have_got_there_it_is_looked_for_there_alone(
    world: ClusterWorld, hosts: Hosts
) -> None:
    kill_first(hosts)
    hosts.doubt = True
    run_id = world.submit()
    world.tick(1)
    hosts.doubt = False
    world.watch(100)
    assert world.status(run_id) == "Starting"
    assert DEAD in runs.show(world.plane, run_id).message
    assert len(world.attempts(run_id)) == 1
    hosts.dead = set()
    world.tick()
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"
    assert set(world.backend.starts.values()) == {1}


def test_a_server_that_was_killed_leaves_doubt(world: ClusterWorld, hosts: Hosts) -> None:
    kill_first(hosts)
    hosts.doubt = True
    run_id = world.submit()
    world.tick(1)
    world.restart()
    hosts.doubt = False
    world.watch(60)
    assert world.status(run_id) == "Starting"
    assert len(world.attempts(run_id)) == 1


def test_one_of_two_nodes_sends_the_run_back_with_the_other(
    world: ClusterWorld, hosts: Hosts
) -> None:
    kill_first(hosts)
    run_id = world.submit(node_count=2)
    for _ in range(5):
        world.tick(1)
    assert world.status(run_id) == "Queued"
    assert states(world) == ["idle", "unusable"]
    hosts.dead = set()
    for _ in range(10):
        world.tick(20)
        if world.status(run_id) == "Starting":
            break
    assert [(each.number, each.rank) for each in world.attempts(run_id)] == [
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
    ]
    world.tick()
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"


def test_one_that_is_canceled_meanwhile_is_canceled(world: ClusterWorld, hosts: Hosts) -> None:
    kill_first(hosts)
    hosts.doubt = True
    run_id = world.submit(node_count=2)
    world.tick(1)
    runs.cancel(world.plane, run_id)
    hosts.dead = set()
    world.watch(60)
    assert world.status(run_id) == "Canceled"


REFUSALS = [
    TargetUnavailableError("too many processes", cause="start", refused=True),
    LaunchRefusedError("there is no program python3", node=True),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["trouble", "refusal"])
def test_a_node_that_refuses_three_times_is_unusable_and_its_run_goes_elsewhere(
    world: ClusterWorld, hosts: Hosts, refusal: WherryError
) -> None:
    node = kill_first(hosts)
    hosts.refusal = refusal
    run_id = world.submit()
    for _ in range(8):
        world.tick(1)
    assert states(world) == ["running", "unusable"]
    assert refusal.message in world.show()["problem"]
    assert world.attempts(run_id)[-1].node_id != node.id
    assert [each.node_id for each in world.attempts(run_id)].count(node.id) == 3
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"


def test_a_node_whose_disk_is_full_is_unusable_at_once(world: ClusterWorld, hosts: Hosts) -> None:
    node = kill_first(hosts)
    hosts.refusal = TargetUnavailableError("no space left", cause="disk_full", refused=True)
    run_id = world.submit()
    world.tick(1)
    world.tick(1)
    assert states(world) == ["running", "unusable"]
    assert [each.node_id == node.id for each in world.attempts(run_id)] == [True, False]


def test_what_a_run_is_refused_for_itself_fails_it(world: ClusterWorld, hosts: Hosts) -> None:
    kill_first(hosts)
    hosts.refusal = LaunchRefusedError("its arguments are too long", node=False)
    run_id = world.submit()
    world.tick(1)
    assert world.status(run_id) == "Failed"
    assert "unusable" not in states(world)


FULL = {"setup_error": "the snapshot cannot be unpacked: No space left on device", "no_room": True}


def test_a_run_for_which_the_disk_is_too_full_goes_elsewhere(world: ClusterWorld) -> None:
    run_id = world.submit()
    world.tick(1)
    [first] = world.attempts(run_id)
    report(world.plane, first.id, {"stage": "preparing"})
    report(world.plane, first.id, {"exit": FULL})
    assert world.status(run_id) == "Queued"
    assert "No space left on device" in world.show()["problem"]
    world.tick(1)
    second = world.attempts(run_id)[-1]
    assert second.node_id != first.node_id
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"


def test_a_run_that_fits_on_no_disk_fails_in_the_end(world: ClusterWorld) -> None:
    run_id = world.submit()
    for _ in range(20):
        world.tick(20)
        if world.status(run_id) == "Starting":
            report(world.plane, world.attempts(run_id)[-1].id, {"exit": FULL})
    assert world.status(run_id) == "Failed"
    assert "No space left on device" in runs.show(world.plane, run_id).message
    assert len(world.attempts(run_id)) == 3


def test_one_of_two_nodes_whose_disk_is_full_sends_both_back(world: ClusterWorld) -> None:
    run_id = world.submit(node_count=2)
    world.tick(1)
    first, second = world.attempts(run_id)
    report(world.plane, first.id, {"exit": FULL})
    report(world.plane, second.id, {"exit": {"canceled": True}})
    assert world.status(run_id) == "Queued"
    assert states(world) == ["idle", "unusable"]
