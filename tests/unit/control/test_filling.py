"""Runs with a time limit that fill the gap before a larger one starts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.control.cluster_world import ClusterWorld
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import runs
from wherry.control.reports import report
from wherry.store import runs as run_rows

__all__ = ["clock"]


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> ClusterWorld:
    """Two nodes, one of them busy for 1,000 seconds at most."""
    world = ClusterWorld(tmp_path, clock, min_nodes=2)
    world.tick()
    return world


def busy(world: ClusterWorld, limit_s: float | None = 1000) -> str:
    run_id = world.submit(max_run_duration_s=limit_s)
    world.tick()
    world.begin(run_id)
    return run_id


def go_on(world: ClusterWorld, run_id: str) -> None:
    """For two minutes, in which it is heard of."""
    for _ in range(24):
        world.tick(5)
        report(world.plane, world.attempt(run_id).id, {"stage": "running"})


def test_a_run_that_is_over_in_time_starts_before_a_larger_one_and_does_not_delay_it(
    world: ClusterWorld,
) -> None:
    first = busy(world)
    large, open_ended = world.submit(node_count=2), world.submit()
    too_long = world.submit(max_run_duration_s=1000)
    short = world.submit(max_run_duration_s=300)
    world.tick()
    others = (large, open_ended, too_long)
    assert world.status(short) == "Starting"
    assert [world.status(each) for each in others] == ["Queued"] * 3
    world.begin(short)
    world.finish(short)
    go_on(world, first)
    assert world.status(short) == "Completed"
    assert [world.status(each) for each in others] == ["Queued"] * 3
    world.finish(first)
    assert world.settle(first) == "Completed"
    world.tick()
    assert world.status(large) == "Starting"
    assert [world.status(each) for each in (open_ended, too_long)] == ["Queued"] * 2


def test_those_that_wait_say_for_whom_nodes_are_kept_and_from_when(world: ClusterWorld) -> None:
    busy(world)
    begun = world.clock.now()
    large, small = world.submit(node_count=2), world.submit()
    world.tick()
    end = begun + timedelta(seconds=1000 + 30 + 60)
    told = runs.show(world.plane, small).message
    assert f"1 idle (kept for run {large}, from {end:%Y-%m-%d %H:%M:%S} UTC at the latest)" in told
    assert "kept" not in runs.show(world.plane, large).message


def test_where_an_end_is_not_known_nobody_passes(world: ClusterWorld) -> None:
    busy(world, None)
    large, short = world.submit(node_count=2), world.submit(max_run_duration_s=1)
    world.tick()
    assert [world.status(each) for each in (large, short)] == ["Queued"] * 2


def test_one_whose_set_up_takes_too_long_gives_its_node_back(world: ClusterWorld) -> None:
    first = busy(world)
    large, short = world.submit(node_count=2), world.submit(max_run_duration_s=300)
    world.tick()
    assert world.status(short) == "Starting"
    world.watch(60)
    assert world.status(short) == "Starting"
    world.watch(120)
    assert [each.number for each in world.attempts(short)] == [1]
    assert world.status(short) == "Queued"
    with world.plane.database.read() as connection:
        told = run_rows.history(connection, short)[-1]
    assert told.reason == "Preempted"
    assert "kept for a run before it, and its set-up took too long" in told.message
    world.finish(first)
    world.settle(first)
    world.tick()
    assert [world.status(each) for each in (large, short)] == ["Starting", "Queued"]


def test_one_that_has_begun_is_left_alone_whatever_its_set_up_took(world: ClusterWorld) -> None:
    busy(world)
    world.submit(node_count=2)
    short = world.submit(max_run_duration_s=300)
    world.tick()
    world.begin(short)
    go_on(world, short)
    assert world.attempts(short)[0].stop_wanted_at is None
    assert world.status(short) == "Running"


def test_a_server_that_was_away_waits_until_it_has_heard_of_those(world: ClusterWorld) -> None:
    busy(world)
    world.submit(node_count=2)
    short = world.submit(max_run_duration_s=300)
    world.tick()
    world.clock.pass_s(100)
    world.restart()
    world.tick()
    assert world.attempts(short)[0].stop_wanted_at is None
    world.begin(short)
    go_on(world, short)
    assert world.attempts(short)[0].stop_wanted_at is None
    assert world.status(short) == "Running"
