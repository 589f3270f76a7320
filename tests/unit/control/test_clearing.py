"""What ended is cleared away in the quiet after a burst, and in the end whatever happens."""

from __future__ import annotations

from tests.unit.control.test_reconciler import World, clock, world
from wherry.control.reports import report

__all__ = ["clock", "world"]


def ended(world: World) -> str:
    run_id = world.submit()
    world.tick()
    attempt = world.attempt(run_id)
    world.begin(run_id)
    world.backend.end(attempt.id)
    report(world.plane, attempt.id, {"exit": {"exit_code": 0}})
    assert world.status(run_id) == "Completed"
    return run_id


def cleared(world: World, run_id: str) -> bool:
    return world.attempt(run_id).released_at is not None


def test_nothing_is_cleared_away_while_runs_start(world: World) -> None:
    first = ended(world)
    for _ in range(4):
        ended(world)
        assert not cleared(world, first)
    world.tick(6)
    assert cleared(world, first)


def test_a_stream_of_runs_does_not_keep_what_ended_for_ever(world: World) -> None:
    first = ended(world)
    for _ in range(25):
        ended(world)
    assert cleared(world, first)
