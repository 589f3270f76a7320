"""The server dies between any two steps of the loop, and the next one takes up where it was.

A step is a transaction or a call of the driver. For every life that a run may have, and for every
n, the process dies at the n-th point; a new one then lives the rest of that life.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.unit.control.crashing import (
    Crash,
    CrashingDriver,
    CrashingWorld,
    Fuse,
    KnowingDriver,
)
from tests.unit.control.test_reconciler import Clock, World, clock
from wherry.control import run_logs, runs
from wherry.control.reports import report
from wherry.core.lifecycle import ExitRecord

__all__ = ["clock"]

TEXT = "one\ntwo\nthree\n"
ENDED = ("Completed", "Canceled", "Failed")
Life = Callable[[World, str], None]
Burst = Callable[[CrashingWorld, Sequence[str]], None]


def completed(world: World, run_id: str) -> None:
    """The backend alone says how it ended."""
    attempt = world.backend.attempts.get(world.attempt(run_id).id)
    if attempt is not None and attempt.exit is None:
        if not attempt.job.log:
            attempt.job.write(TEXT)
        world.backend.end(world.attempt(run_id).id)


def reported(world: World, run_id: str) -> None:
    """Its runner says everything itself, and says it again if it was not heard."""
    attempt_id = world.attempt(run_id).id
    if attempt_id in world.backend.attempts:
        log = {"offset": 0, "data": TEXT.encode()}
        report(world.plane, attempt_id, {"stage": "running", "log": log})
        report(world.plane, attempt_id, {"exit": {"exit_code": 0}})
        world.backend.end(attempt_id)


def stubborn(world: World, run_id: str) -> None:
    """It is asked to end, and ends by force alone."""
    world.backend.stubborn.add(world.attempt(run_id).id)
    if world.status(run_id) != "CancelRequested":
        runs.cancel(world.plane, run_id)


def lost(world: World, run_id: str) -> None:
    """Its runner is gone and left nothing."""
    attempt_id = world.attempt(run_id).id
    attempt = world.backend.attempts.get(attempt_id)
    if attempt is not None and attempt.exit is None:
        world.backend.lose(attempt_id)


def unstarted(world: World, run_id: str) -> None:
    """Its first runner is killed while it prepares; the second one's life is an ordinary one."""
    attempt = world.attempt(run_id)
    if attempt.number > 1:
        reported(world, run_id)
        return
    if attempt.id in world.backend.attempts:
        report(world.plane, attempt.id, {"stage": "preparing"})
        report(world.plane, attempt.id, {"exit": {"lost": True, "unstarted": True}})
        world.backend.end(attempt.id, ExitRecord(lost=True, unstarted=True))


LIVES: dict[Life, str] = {
    completed: "Completed",
    reported: "Completed",
    stubborn: "Canceled",
    lost: "Failed",
    unstarted: "Completed",
}
TWICE = (unstarted,)


@pytest.mark.parametrize("life", LIVES, ids=lambda life: str(life.__name__))
def test_whenever_the_server_dies_the_run_ends_once_and_right(
    tmp_path: Path, clock: Clock, life: Life
) -> None:
    world = CrashingWorld(tmp_path, clock)
    for point in count(1):
        run_id, other = world.submit(), world.submit()
        fuse = _die_at(point, world, partial(_live, world, run_id, life))
        assert world.status(run_id) == LIVES[life]
        _live(world, other, completed)
        _check(world, run_id, attempts=2 if life in TWICE else 1)
        if not fuse.blown:
            break
    assert point > 10
    world.close()


def _die_at(point: int, world: CrashingWorld, live: Callable[[], None]) -> Fuse:
    """It is blown if there was such a point."""
    fuse = Fuse(point)
    world.restart(fuse=fuse)
    try:
        live()
    except Crash:
        world.restart()
        live()
    fuse.left = 0
    return fuse


def _live(world: CrashingWorld, run_id: str, life: Life) -> None:
    """A run's life up to its end, picking up wherever it was left."""
    for _ in range(20):
        world.tick(5)
        if world.status(run_id) in ENDED:
            if all(each.released_at is not None for each in world.attempts(run_id)):
                return
        elif world.status(run_id) != "Queued":
            life(world, run_id)


def handed_over(world: CrashingWorld, made: Sequence[str]) -> None:
    """Each ends at once and is handed over; the next but one waits meanwhile, admitted."""
    for run_id in made:
        if world.at_work(run_id):
            world.hand_over(run_id, TEXT)


def told_twice(world: CrashingWorld, made: Sequence[str]) -> None:
    """One that was taken for lost was rescued, and its line comes nevertheless."""
    for run_id in made:
        if world.at_work(run_id):
            world.hand_over(run_id, TEXT)
            story = {"log": {"offset": 0, "data": TEXT.encode()}, "exit": {"exit_code": 0}}
            report(world.plane, world.attempt(run_id).id, story)


def late(world: CrashingWorld, made: Sequence[str]) -> None:
    """The second takes so long that the third, which waits for it, queues again."""
    first, second, third, fourth = made
    handed_over(world, [first, third, fourth])
    if world.waits(third):
        world.tick(2)
    else:
        handed_over(world, [second])


def canceled(world: CrashingWorld, made: Sequence[str]) -> None:
    """The third is asked to end while it waits; a server that finds it so may start it, to end."""
    first, second, third, fourth = made
    handed_over(world, [first, fourth])
    if world.status(third) == "Starting":
        runs.cancel(world.plane, third)
    elif world.status(third) != "CancelRequested":
        handed_over(world, [second])


def stopped(world: CrashingWorld, made: Sequence[str]) -> None:
    """With one that waits, its server is stopped and another is started."""
    if world.waits(made[2]):
        world.reconciler.stop()
        world.restart(fuse=world.fuse)
    else:
        handed_over(world, made)


BURSTS: dict[Burst, list[str]] = {
    handed_over: ["Completed"] * 4,
    told_twice: ["Completed"] * 4,
    late: ["Completed"] * 4,
    canceled: ["Completed", "Completed", "Canceled", "Completed"],
    stopped: ["Completed"] * 4,
}


DEEP = (handed_over, stopped)
"""Where several stand by at once."""


@pytest.mark.parametrize("burst", BURSTS, ids=lambda burst: str(burst.__name__))
def test_whenever_the_server_dies_each_of_a_burst_ends_once_and_right(
    tmp_path: Path, clock: Clock, burst: Burst
) -> None:
    driver = KnowingDriver if burst in DEEP else CrashingDriver
    world = CrashingWorld(tmp_path, clock, driver)
    for point in count(1):
        made = [world.submit(resources={"cpu": 2}) for _ in range(4)]  # the whole machine each
        fuse = _die_at(point, world, partial(_live_burst, world, made, burst))
        assert [world.status(run_id) for run_id in made] == BURSTS[burst]
        for run_id in made:
            _check(world, run_id)
        if not fuse.blown:
            break
    assert point > 30
    world.close()


def _live_burst(world: CrashingWorld, made: Sequence[str], burst: Burst) -> None:
    """In turns, with a look at everything now and then."""
    for number in range(60):
        if all(world.status(run_id) in ENDED for run_id in made):
            if all(each.released_at for run_id in made for each in world.attempts(run_id)):
                return
            world.tick(5)
        elif number % 4:
            world.turn()
        else:
            world.tick(0.5)
        burst(world, made)


def _check(world: CrashingWorld, run_id: str, attempts: int = 1) -> None:
    """Started once at most, cleared away, told once each."""
    assert set(world.backend.starts.values()) <= {1}
    assert world.backend.attempts == {}
    made = world.attempts(run_id)
    assert [each.number for each in made] == [*range(1, attempts + 1)] or (
        not made and world.status(run_id) == "Canceled"
    )
    logs = [world.plane.logs.read(run_logs.key(run_id, each.id), 0, 1000) for each in made]
    assert logs[-1:] in ([TEXT.encode()], [b""], [])
    assert not any(logs[:-1])
    assert any(logs) or world.status(run_id) != "Completed"
