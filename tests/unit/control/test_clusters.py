"""Clusters that breathe, on a site and a clock of our own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from tests.unit.control.cluster_world import (
    TARGET,
    ClusterWorld,
    MemorySite,
    dies_everywhere,
    elsewhere,
)
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import computes, costs, evictions, runs
from wherry.control.reports import report
from wherry.control.scaling import Scaling
from wherry.core.errors import (
    ComputeTargetException,
    ConflictError,
    NotFoundError,
    UserErrorException,
)
from wherry.core.resources import Resources
from wherry.drivers.sites import Machine
from wherry.store import nodes, tables
from wherry.store import runs as store_runs

__all__ = ["clock"]


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> ClusterWorld:
    return ClusterWorld(tmp_path, clock)


def states(world: ClusterWorld) -> list[str]:
    return sorted(node["state"] for node in world.show()["nodes"])


def resting(world: ClusterWorld) -> bool:
    return world.reconciler.resting


def test_a_node_is_made_for_a_run_and_goes_when_nobody_wants_it(world: ClusterWorld) -> None:
    world.tick()
    assert world.there == {}
    run_id = world.submit()
    world.tick()
    assert states(world) == ["idle"]
    world.tick()
    assert states(world) == ["running"]
    assert world.show()["nodes"][0]["run_id"] == run_id
    world.begin(run_id)
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"
    assert states(world) == ["idle"]
    world.watch(120)
    assert world.there == {}
    assert world.show()["status"]["current_node_count"] == 0


def test_a_cluster_rests_when_it_has_no_nodes_and_nobody_waits(world: ClusterWorld) -> None:
    world.tick()
    assert resting(world)
    run_id = world.submit()
    world.tick()
    assert not resting(world)
    world.tick()
    world.begin(run_id)
    world.finish(run_id)
    world.settle(run_id)
    assert not resting(world), "an idle node is to be removed in time"
    world.watch(120)
    assert resting(world)
    computes.change(world.plane, "w", "cpu", {"config": {"min_nodes": 1}})
    world.tick()
    assert not resting(world)


def test_no_more_nodes_than_the_limit_and_runs_take_turns(world: ClusterWorld) -> None:
    made = [world.submit() for _ in range(5)]
    for _ in range(40):
        world.tick()
        assert len(world.there) <= 2
        for run_id in made:
            world.finish(run_id)
    assert [world.status(run_id) for run_id in made] == ["Completed"] * 5
    assert set(world.backend.starts.values()) == {1}


def test_a_run_gets_all_its_nodes_or_none(world: ClusterWorld) -> None:
    first, large, small = world.submit(), world.submit(node_count=2), world.submit()
    for _ in range(4):
        world.tick()
    assert [world.status(each) for each in (first, large, small)] == [
        "Starting",
        "Queued",
        "Queued",
    ]
    world.finish(first)
    world.settle(first)
    for _ in range(4):
        world.tick()
    assert world.status(large) == "Starting"
    members = world.attempts(large)
    assert [(each.number, each.rank) for each in members] == [(1, 0), (1, 1)]
    assert len({each.node_id for each in members}) == 2


def test_higher_priority_goes_first(world: ClusterWorld) -> None:
    computes.change(world.plane, "w", "cpu", {"config": {"max_nodes": 1}})
    plain, urgent, late = world.submit(), world.submit(priority=5), world.submit(priority=-1)
    order = []
    for _ in range(30):
        world.tick()
        for run_id in (plain, urgent, late):
            if world.status(run_id) == "Starting" and run_id not in order:
                order.append(run_id)
                world.finish(run_id)
    assert order == [urgent, plain, late]


def test_what_could_never_start_is_refused(world: ClusterWorld) -> None:
    with pytest.raises(UserErrorException, match="at most 2"):
        world.submit(node_count=3)
    with pytest.raises(ComputeTargetException, match="did you mean 'cpu'"):
        world.submit(target="cpuu")
    with pytest.raises(UserErrorException, match="this target is one"):
        world.submit(target="local", node_count=2)


def test_a_node_that_does_not_start_is_tried_again_and_then_told_of(world: ClusterWorld) -> None:
    world.broken = "the machine room is dark"
    run_id = world.submit()
    world.tick()
    assert states(world) == ["preparing"]
    assert "the machine room is dark" in world.show()["problem"]
    world.watch(200)
    assert "unusable" in states(world)
    assert world.show()["status"]["errors"][0]["message"].endswith("the machine room is dark")
    world.broken = ""
    for _ in range(100):
        world.tick(20)
        if world.status(run_id) != "Queued":
            break
    assert world.status(run_id) == "Starting"
    assert world.show()["problem"] is None


def test_the_site_may_have_less_room_than_the_limit(world: ClusterWorld) -> None:
    world.capacity = 1
    made = [world.submit(), world.submit()]
    world.watch(100)
    assert len(world.nodes()) == 1
    assert sorted(world.status(each) for each in made) == ["Queued", "Starting"]


def test_runs_that_cannot_start_now_hide_nobody_behind_them(tmp_path: Path, clock: Clock) -> None:
    world = ClusterWorld(tmp_path, clock, max_nodes=4)
    world.capacity = 2
    run_id = world.submit(node_count=3)
    with world.plane.write() as connection:
        query = select(tables.runs).where(tables.runs.c.id == run_id)
        kept = dict(connection.execute(query).one()._mapping)
        del kept["seq"], kept["submission_key"]
        more = [{**kept, "id": f"r{n}", "root_id": f"r{n}"} for n in range(1000)]
        connection.execute(tables.runs.insert(), more)
    small = world.submit()
    world.watch(60)
    assert world.status(small) == "Starting"
    assert len(world.there) == 1
    assert "its site has no room for more" in message(world, run_id)
    world.capacity = 4
    world.finish(small)
    world.watch(100)
    assert world.status(run_id) == "Starting"


def test_minimum_nodes_are_there_without_runs(tmp_path: Path, clock: Clock) -> None:
    world = ClusterWorld(tmp_path, clock, min_nodes=2)
    world.watch(200)
    assert states(world) == ["idle", "idle"]


def test_a_cluster_that_lacks_nodes_says_who_has_the_room(tmp_path: Path, clock: Clock) -> None:
    world = ClusterWorld(tmp_path, clock, min_nodes=2)
    world.capacity = 1
    world.watch(100)
    lacking = "1 of the 2 nodes that it should have; its site has no room for more"
    assert world.show()["problem"] == f"{lacking} than 1 node"
    with world.plane.write() as connection:
        [mine] = nodes.present(connection, TARGET)
        other = {**mine._mapping, "id": "n", "target": "w/other"}
        nodes.add(connection, [other, {**other, "id": "m", "target": "v/third"}])
    told = world.show()["problem"]
    assert told == f"{lacking}: other has 1 node, v/third has 1 node there"
    assert told in message(world, world.submit(node_count=2))


def test_a_stopped_cluster_starts_nothing_until_it_is_started(world: ClusterWorld) -> None:
    computes.act(world.plane, "w", "cpu", "stop")
    run_id = world.submit()
    world.watch(60)
    assert world.status(run_id) == "Queued"
    assert world.there == {}
    computes.act(world.plane, "w", "cpu", "start")
    world.watch(60)
    assert world.status(run_id) == "Starting"


def test_deleting_with_runs_refuses_or_cancels_and_leaves_nothing(world: ClusterWorld) -> None:
    run_id, waiting = world.submit(), world.submit(node_count=2)
    world.watch(60)
    assert world.status(run_id) == "Starting"
    with pytest.raises(ConflictError, match=run_id):
        computes.remove(world.plane, "w", "cpu", cancel=False)
    assert not computes.remove(world.plane, "w", "cpu", cancel=True)
    assert world.show()["provisioning_state"] == "Deleting"
    with pytest.raises(ComputeTargetException, match="being deleted"):
        world.submit()
    for _ in range(10):
        world.tick(20)
        if computes.finish_removal(world.plane, TARGET):
            break
    assert computes.finish_removal(world.plane, TARGET)
    assert world.status(run_id) == world.status(waiting) == "Canceled"
    assert world.there == {}
    assert world.backend.attempts == {}


def test_a_cluster_is_soon_away_though_runs_waited_for_it(world: ClusterWorld) -> None:
    run_id = world.submit()
    world.submit(node_count=2)
    world.watch(60)
    computes.remove(world.plane, "w", "cpu", cancel=True)
    world.finish(run_id)
    for _ in range(15):
        world.tick(2)
    assert computes.finish_removal(world.plane, TARGET)


def test_costs_are_told_by_run_target_and_day(world: ClusterWorld) -> None:
    run_id = world.submit()
    world.tick()
    world.tick()
    world.clock.pass_s(36_000)
    [line] = costs.every(world.plane, "w", "run")
    assert line["run_id"] == run_id
    assert line["cost"] == pytest.approx(36.0, rel=0.01)
    world.finish(run_id)
    world.settle(run_id)
    world.clock.pass_s(24 * 3600)
    world.watch(120)
    assert world.there == {}
    [run] = costs.every(world.plane, "w", "run")
    [target] = costs.every(world.plane, "w", "target")
    days = costs.every(world.plane, "w", "day")
    assert run["cost"] == pytest.approx(36.0, rel=0.01)
    assert target["node_seconds"] > run["node_seconds"]
    idle = target["node_seconds"] - run["node_seconds"]
    assert target["idle_seconds"] == pytest.approx(idle)
    assert sum(day["idle_seconds"] for day in days) == pytest.approx(idle, abs=0.01)
    assert sum(day["cost"] for day in days) == pytest.approx(target["cost"])
    assert len(days) == 2


def message(world: ClusterWorld, run_id: str) -> str:
    return runs.show(world.plane, run_id).message


def test_a_run_says_what_it_waits_for(world: ClusterWorld) -> None:
    first = world.submit()
    assert message(world, first) == "needs 1 node of cpu; none made yet, limit 2"
    world.tick()
    world.tick()
    second = world.submit(node_count=2)
    third = world.submit()
    assert message(world, second) == (
        f"needs 2 nodes of cpu; 1 busy until run {first} ends, limit 2"
    )
    assert message(world, third).endswith("1 run is before it")
    computes.act(world.plane, "w", "cpu", "stop")
    assert message(world, second) == "compute target 'cpu' is stopped: wherry compute start cpu"


def test_a_problem_of_the_target_is_told_by_its_runs(world: ClusterWorld) -> None:
    world.broken = "the machine room is dark"
    run_id = world.submit()
    world.tick()
    assert message(world, run_id).endswith("a node cannot be started: the machine room is dark")


def test_dedicated_nodes_are_not_evicted(world: ClusterWorld) -> None:
    with pytest.raises(ConflictError, match="dedicated"):
        evictions.evict(world.plane, "w", "cpu", None)


def test_an_evicted_run_queues_again_and_its_history_says_so(tmp_path: Path, clock: Clock) -> None:
    world = ClusterWorld(tmp_path, clock, vm_priority="lowpriority", max_nodes=1)
    run_id = world.submit()
    world.tick()
    world.tick()
    world.begin(run_id)
    node = world.nodes()[0].id
    evictions.evict(world.plane, "w", "cpu", node)
    assert states(world) == ["preempted"]
    for _ in range(30):
        world.tick()
        if len(world.attempts(run_id)) == 2:
            break
    assert [each.number for each in world.attempts(run_id)] == [1, 2]
    assert node not in world.there
    world.finish(run_id)
    assert world.settle(run_id) == "Completed"
    with world.plane.database.read() as connection:
        told = [event.reason for event in store_runs.history(connection, run_id)]
    assert "Preempted" in told


def test_a_dedicated_cluster_takes_the_room_of_a_low_priority_one(
    tmp_path: Path, clock: Clock
) -> None:
    world = ClusterWorld(tmp_path, clock, max_nodes=1)
    world.capacity = 1
    config = {"max_nodes": 1, "vm_priority": "lowpriority", "idle_seconds": 60}
    computes.put(world.plane, "w", "cheap", {"type": "AmlCompute", "config": config})
    cheap = world.another("w/cheap")
    patient = world.submit(target="cheap")
    for _ in range(3):
        clock.pass_s(3)
        cheap.tick()
    assert world.status(patient) == "Starting"
    urgent = world.submit()
    for _ in range(30):
        world.tick()
        cheap.tick()
        assert len(world.there) <= 1
        if world.status(urgent) == "Starting":
            break
    assert world.status(urgent) == "Starting"
    assert world.status(patient) == "Queued"
    world.finish(urgent)
    for _ in range(60):
        world.tick()
        cheap.tick()
    assert world.status(urgent) == "Completed"
    assert world.status(patient) == "Starting"


def test_two_clusters_do_not_promise_the_same_room(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.capacity = 1
    computes.put(world.plane, "w", "other", {"type": "AmlCompute", "config": {"max_nodes": 2}})
    other = world.another("w/other")
    made = [world.submit(), world.submit(target="other")]
    write = Scaling._write

    def late(scaling: Scaling, *arguments: Any) -> None:
        """The other one comes between what was seen and what is done about it."""
        monkeypatch.setattr(Scaling, "_write", write)
        other.tick()
        write(scaling, *arguments)

    monkeypatch.setattr(Scaling, "_write", late)
    world.tick()
    assert world.nodes() == []
    assert len(world.there) == 1
    other.tick()
    assert [world.status(each) for each in made] == ["Queued", "Starting"]


def test_an_idle_machine_that_is_gone_is_found_before_a_run_is_given_to_it(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(world)
    monkeypatch.setattr("wherry.control.scaling.time.monotonic", world.clock.monotonic)
    computes.change(world.plane, "w", "cpu", {"config": {"min_nodes": 1}})
    world.watch(60)
    assert states(world) == ["idle"]
    world.backend.down, world.broken = True, "the memory backend is down"
    for _ in range(5):
        world.tick(30)
    assert "the memory backend is down" in str(world.show()["problem"])
    world.backend.down, world.broken = False, ""
    world.watch(400)
    assert states(world) == ["idle"]


def test_a_machine_that_no_row_knows_is_removed(world: ClusterWorld) -> None:
    world.there["stray"] = Machine("stray", Resources(1, 0, 0))
    world.restart()
    world.tick()
    assert world.there == {}


def live(world: ClusterWorld, run_id: str) -> None:
    """A run's life, and its node's, picking up wherever they were left."""
    for number in range(40):
        world.tick(5 if world.status(run_id) != "Completed" else 30)
        if world.status(run_id) == "Completed" and not world.nodes():
            return
        attempts = world.attempts(run_id)
        if attempts and attempts[0].id in world.backend.attempts and number % 2:
            report(world.plane, attempts[0].id, {"stage": "running"})
            world.finish(run_id)


def test_whenever_the_server_dies_no_node_is_leaked_or_doubled(
    tmp_path: Path, clock: Clock
) -> None:
    world = ClusterWorld(tmp_path, clock)
    made: list[str] = []
    dies_everywhere(
        world,
        lambda: live(world, made[-1]),
        lambda: check(world, made[-1]),
        begin=lambda: made.append(world.submit()),
        least=20,
    )


def delete(world: ClusterWorld) -> None:
    """A cluster with a run that works and one that waits goes, wherever that was left."""
    with suppress(NotFoundError):
        computes.remove(world.plane, "w", "cpu", cancel=True)
    for _ in range(20):
        if computes.finish_removal(world.plane, TARGET):
            return
        world.tick(20)


def test_whenever_the_server_dies_a_deleted_cluster_leaves_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    world = ClusterWorld(tmp_path, clock)
    made: list[str] = []

    def begin() -> None:
        made[:] = [world.submit(), world.submit(node_count=2)]
        world.watch(60)

    def gone() -> None:
        assert [world.status(run_id) for run_id in made] == ["Canceled"] * 2
        assert (world.there, world.nodes(), world.backend.attempts) == ({}, [], {})
        assert computes.finish_removal(world.plane, TARGET)

    dies_everywhere(world, lambda: delete(world), gone, begin=begin, again=world.create, least=20)


def check(world: ClusterWorld, run_id: str) -> None:
    assert world.status(run_id) == "Completed"
    assert world.there == {}
    assert world.nodes() == []
    assert set(world.made.values()) == {1}
    assert set(world.backend.starts.values()) == {1}
    assert world.backend.attempts == {}
    [attempt] = world.attempts(run_id)
    taken = (attempt.ended_at - attempt.created_at).total_seconds()
    assert sum_of(world, run_id) == pytest.approx(taken)
    assert sum_of(world, "") == pytest.approx(life_of_nodes(world))


def sum_of(world: ClusterWorld, run_id: str) -> float:
    query = select(func.sum(tables.costs.c.node_seconds)).where(tables.costs.c.run_id == run_id)
    with world.plane.database.read() as connection:
        return float(connection.execute(query).scalar() or 0)


def life_of_nodes(world: ClusterWorld) -> float:
    with world.plane.database.read() as connection:
        rows: list[Any] = list(connection.execute(select(tables.nodes)))
    return float(sum((row.removed_at - row.created_at).total_seconds() for row in rows))


def test_nobody_is_evicted_whose_place_helps_nobody(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a host with fewer GPUs than the dedicated cluster's nodes have."""
    world = ClusterWorld(tmp_path, clock, max_nodes=1)
    world.capacity = 1
    config = {"max_nodes": 1, "vm_priority": "lowpriority", "idle_seconds": 60}
    computes.put(world.plane, "w", "cheap", {"type": "AmlCompute", "config": config})
    cheap = world.another("w/cheap")
    patient = world.submit(target="cheap")
    for _ in range(3):
        clock.pass_s(3)
        cheap.tick()
    assert world.status(patient) == "Starting"
    monkeypatch.setattr(MemorySite, "taken_by", lambda _self, _promised, _size: 0)
    urgent = world.submit()
    for _ in range(10):
        world.tick()
        cheap.tick()
    assert world.status(patient) == "Starting"
    assert world.status(urgent) == "Queued"
