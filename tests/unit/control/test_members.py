"""A run on two nodes, on a memory driver and a clock of our own: how it ends, and who ends it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.control.test_reconciler import World, clock, world
from wherry.control import files, run_logs, runs
from wherry.control.reports import append_log, report
from wherry.core.errors import LaunchRefusedError
from wherry.core.ids import new_uuid
from wherry.core.lifecycle import ExitRecord, Status
from wherry.core.placement import Placement
from wherry.core.resources import Resources
from wherry.drivers.base import Handle, Launch
from wherry.drivers.memory import MemoryDriver
from wherry.store import attempts, nodes
from wherry.store import runs as run_rows
from wherry.store.runs import Change
from wherry.store.tables import runs as table

__all__ = ["clock", "world"]

HOSTS = ("host-a", "host-b")


class Pair:
    """A run that has been given two nodes, as a cluster's admission does it."""

    def __init__(self, world: World, **fields: Any) -> None:
        self.world = world
        self.run_id = world.submit(**fields)
        self.admit()

    def admit(self) -> None:
        plane, now = self.world.plane, self.world.plane.now()
        with plane.write() as connection:
            spec = {**run_rows.get(connection, self.run_id).spec, "node_count": 2}
            connection.execute(table.update().values(node_count=2, spec=spec))
            run = run_rows.get(connection, self.run_id, lock=True)
            for rank, host in enumerate(HOSTS):
                if nodes.find(connection, host) is None:
                    nodes.add(connection, [_node(host, now)])
                place = Placement(self.run_id, Resources(1), (), host, rank)
                number = attempts.add(connection, run, new_uuid(), place, now)
            run_rows.move(connection, run, Status.STARTING, now, Change(attempt_count=number))
        self.world.reconciler._starting.adopt(self.live())

    def live(self) -> list[Any]:
        with self.world.plane.database.read() as connection:
            return attempts.live(connection, "local")

    @property
    def members(self) -> list[Any]:
        with self.world.plane.database.read() as connection:
            every = attempts.of_run(connection, self.run_id)
        return [each for each in every if each.number == every[-1].number]

    def begin(self) -> None:
        for member in self.members:
            self.world.backend.begin(member.id)
            report(self.world.plane, member.id, {"stage": "running"})

    def end(self, rank: int, **record: Any) -> dict[str, Any]:
        """The runner of one node tells how it ended."""
        member = self.members[rank]
        self.world.backend.end(member.id, ExitRecord(**record))
        return report(self.world.plane, member.id, {"exit": record})

    @property
    def shown(self) -> Any:
        return runs.show(self.world.plane, self.run_id)


def _node(host: str, now: Any) -> dict[str, Any]:
    return {
        "id": host,
        "target": "local",
        "site": "lab",
        "name": host,
        "state": "running",
        "config": {"address": f"{host}.lab"},
        "cpu": 1,
        "memory_bytes": 1,
        "gpus": [],
        "size": "s",
        "price": 0,
        "created_at": now,
        "state_since": now,
    }


def test_a_run_completes_when_all_its_nodes_have(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    assert pair.shown.status == "Running"
    pair.end(0, exit_code=0)
    assert pair.shown.status == "Running"
    assert [each.ended_at is not None for each in pair.members] == [True, False]
    pair.end(1, exit_code=0)
    assert pair.shown.status == "Completed"
    assert all(each.ended_at for each in pair.members)


def test_one_node_that_fails_ends_the_others_and_is_named(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    pair.end(1, exit_code=3)
    assert pair.shown.status == "Running"
    assert [each.stop_reason for each in pair.members] == ["Sibling", None]
    assert report(world.plane, pair.members[0].id, {"stage": "running"})["cancel"] is True
    world.tick()
    world.tick()
    assert pair.shown.status == "Failed"
    assert pair.shown.message == "node 1 (host-b) exited with code 3"
    assert pair.shown.error["message"] == pair.shown.message


def test_a_node_that_is_lost_ends_the_run_with_its_name(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    world.backend.lose(pair.members[1].id)
    for _ in range(10):
        report(world.plane, pair.members[0].id, {"stage": "running"})
        world.tick(4)
    assert pair.shown.status == "Failed"
    assert pair.shown.message.startswith("node 1 (host-b): its runner ended")


def test_a_node_that_is_lost_is_so_after_a_restart_of_the_server_too(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    world.backend.lose(pair.members[1].id)
    world.watch(20)
    pair.end(0, exit_code=0)
    world.restart()
    world.watch(60)
    assert pair.shown.status == "Failed"


def test_a_cancel_reaches_all(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    runs.cancel(world.plane, pair.run_id)
    world.tick()
    world.tick()
    assert pair.shown.status == "Canceled"
    assert pair.shown.message == "canceled"


def test_one_node_that_cannot_be_started_fails_the_run(world: World) -> None:
    class Picky(MemoryDriver):
        def submit(self, launch: Launch) -> Handle:
            if json.loads(launch.files["manifest.json"])["ranks"]["node"] == 1:
                raise LaunchRefusedError("no room in host-b")
            return super().submit(launch)

    world.restart(Picky(world.backend))
    pair = Pair(world)
    world.tick()
    world.tick()
    assert pair.shown.status == "Failed"
    assert pair.shown.message == "node 1 (host-b) could not be started: no room in host-b"


def test_a_runner_killed_while_it_prepares_costs_an_attempt_not_the_run(world: World) -> None:
    pair = Pair(world)
    for member in pair.members:
        report(world.plane, member.id, {"stage": "preparing"})
    pair.end(1, lost=True, unstarted=True)
    assert pair.members[0].stop_reason == "Sibling"
    pair.end(0, canceled=True)
    assert pair.shown.status == "Queued"
    with world.plane.database.read() as connection:
        last = run_rows.history(connection, pair.run_id)[-1]
    assert last.reason == "RunnerLost"
    assert last.message.startswith("node 1 (host-b): its runner was killed before")
    pair.admit()
    pair.begin()
    for rank in (0, 1):
        pair.end(rank, exit_code=0)
    assert pair.shown.status == "Completed"


def preempt(pair: Pair, rank: int) -> None:
    wanted = {"stop_wanted_at": pair.world.plane.now(), "stop_reason": "Preempted"}
    with pair.world.plane.write() as connection:
        attempts.change(connection, pair.members[rank].id, wanted)
    pair.world.clock.pass_s(1)


def test_a_preempted_run_queues_again_and_says_so(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    preempt(pair, 1)
    assert pair.end(1, signal=15, canceled=True)["cancel"] is True
    assert [each.stop_reason for each in pair.members] == ["Preempted", "Preempted"]
    pair.end(0, exit_code=0, canceled=True)
    with world.plane.database.read() as connection:
        run = run_rows.get(connection, pair.run_id)
        last = run_rows.history(connection, pair.run_id)[-1]
    assert (run.status, run.preemptions) == ("Queued", 1)
    assert (last.to_status, last.reason) == ("Queued", "Preempted")
    assert last.message.startswith("its node host-b was taken away; it starts again")
    pair.admit()
    pair.begin()
    again = world.backend.attempts[pair.members[0].id].launch
    assert json.loads(again.files["manifest.json"])["attempt"] == 2
    for rank in (0, 1):
        pair.end(rank, exit_code=0)
    assert pair.shown.status == "Completed"


def test_a_run_that_ends_well_before_it_is_taken_away_has_completed(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    preempt(pair, 0)
    pair.end(0, exit_code=0)
    pair.end(1, exit_code=0)
    assert pair.shown.status == "Completed"


def test_a_cancel_counts_more_than_a_preemption(world: World) -> None:
    pair = Pair(world)
    pair.begin()
    preempt(pair, 0)
    runs.cancel(world.plane, pair.run_id)
    world.tick()
    world.tick()
    assert pair.shown.status == "Canceled"


@pytest.mark.parametrize(("reason", "forced_after_s"), [("Preempted", 36), ("Sibling", 16)])
def test_who_is_preempted_has_half_a_minute(world: World, reason: str, forced_after_s: int) -> None:
    pair = Pair(world)
    pair.begin()
    world.backend.stubborn = {each.id for each in pair.members}
    preempt(pair, 0)
    with world.plane.write() as connection:
        for each in pair.members:
            changes = {"stop_reason": reason, "stop_wanted_at": world.plane.now()}
            attempts.change(connection, each.id, changes)
    world.tick(1)
    world.tick(forced_after_s - 3)
    assert all(each.exit is None for each in world.backend.attempts.values())
    world.tick(4)
    assert all(each.exit is not None for each in world.backend.attempts.values())


def test_nodes_learn_each_others_ports_when_all_are_ready(world: World) -> None:
    pair = Pair(world)
    first, second = (each.id for each in pair.members)
    asked = {"stage": "preparing", "ports": [7000, 7001]}
    assert report(world.plane, first, asked) == {"cancel": False, "ports": [[7000, 7001], None]}
    both = [[7000, 7001], [8000, 8001]]
    assert report(world.plane, second, {**asked, "ports": [8000, 8001]})["ports"] == both
    assert report(world.plane, first, asked)["ports"] == both
    assert "ports" not in report(world.plane, first, {"stage": "running"})


def test_each_node_s_manifest_says_which_it_is_and_where_all_are(world: World) -> None:
    pair = Pair(world, distribution={"type": "pytorch", "processes_per_node": 2})
    launched = [world.backend.attempts[each.id].launch for each in pair.members]
    manifests = [json.loads(each.files["manifest.json"]) for each in launched]
    assert [each["ranks"]["node"] for each in manifests] == [0, 1]
    assert manifests[1]["ranks"]["hosts"] == ["host-a.lab", "host-b.lab"]
    assert manifests[1]["ranks"]["names"] == ["host-a", "host-b"]
    assert manifests[1]["ranks"]["type"] == "pytorch"
    assert [each["grace_s"] for each in manifests] == [30.0, 30.0]


def test_a_run_of_one_process_is_told_nothing_of_others(world: World) -> None:
    run_id = world.submit()
    world.tick()
    launched = world.backend.attempts[world.attempt(run_id).id].launch
    manifest = json.loads(launched.files["manifest.json"])
    assert (manifest["ranks"], manifest["attempt"], manifest["grace_s"]) == (None, 1, 10.0)


def test_every_process_has_a_log_of_its_own_name(world: World) -> None:
    pair = Pair(world)
    for member in pair.members:
        report(world.plane, member.id, {"stage": "preparing", "ports": [1, 2, 3]})
    first, second = pair.members
    append_log(world.plane, pair.run_id, first.id, 0, b"zero")
    append_log(world.plane, pair.run_id, second.id, 0, b"two")
    third = "user_logs/std_log_process_3.txt"
    append_log(world.plane, pair.run_id, second.id, 0, b"three", name=third)
    listed = {each.path: each.size for each in files.every(world.plane, pair.run_id)}
    assert listed == {
        "user_logs/std_log.txt": 4,
        "user_logs/std_log_process_0.txt": 4,
        "user_logs/std_log_process_1.txt": 0,
        "user_logs/std_log_process_2.txt": 3,
        third: 5,
    }
    for rank in (0, 1):
        pair.end(rank, exit_code=0)
    runs.remove(world.plane, pair.run_id)
    assert world.plane.logs.size(run_logs.key(pair.run_id, second.id, third)) == 0


def test_a_name_belongs_to_the_first_node_that_has_a_file_for_it(world: World) -> None:
    pair = Pair(world)
    first, second = (each.id for each in pair.members)

    def put(path: str, data: bytes, attempt_id: str) -> None:
        files.put(world.plane, pair.run_id, path, [data], attempt_id)

    put("outputs/model", b"of the second", second)
    put("outputs/model", b"of the first", first)
    put("outputs/model", b"again of the second", second)
    put("outputs/alike", b"alike", first)
    put("outputs/alike", b"alike", second)
    put("outputs/rank_1", b"one", second)

    def read(digest: str) -> bytes:
        with world.plane.blobs.open(digest) as file:
            return file.read()

    kept = [each for each in files.every(world.plane, pair.run_id) if each.digest]
    assert {each.path: read(each.digest) for each in kept} == {
        "outputs/model": b"of the first",
        "node_1/outputs/model": b"again of the second",
        "outputs/alike": b"alike",
        "outputs/rank_1": b"one",
    }
