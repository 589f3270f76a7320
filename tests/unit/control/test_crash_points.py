"""The server dies between any two steps of the loop, and the next one takes up where it was.

A step is a transaction or a call of the driver. For every life that a run may have, and for every
n, the process dies at the n-th point; a new one then lives the rest of that life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.planes import make_plane
from tests.unit.control.test_reconciler import Clock, World, clock
from wherry.control import runs
from wherry.control.reconciler import Reconciler
from wherry.control.reports import log_key, report
from wherry.core.lifecycle import ExitRecord, Observation
from wherry.drivers.base import Driver, Handle, Health, Launch
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.store.database import Database

__all__ = ["clock"]

TEXT = "one\ntwo\nthree\n"
Life = Callable[[World, str], None]
T = TypeVar("T")


class Crash(BaseException):
    """The process is killed here."""


class Fuse:
    """Raises at the n-th of all calls that pass it."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.blown = False

    def pass_by(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.blown = True
            raise Crash


class CrashingDriver:
    """Its caller may die before and after each call. What was lost it can bring home, once."""

    def __init__(self, backend: MemoryBackend, fuse: Fuse) -> None:
        self._inner = MemoryDriver(backend)
        self._backend = backend
        self._fuse = fuse

    def check(self) -> Health:
        return self._step(self._inner.check)

    def render(self, launch: Launch) -> str:
        return self._inner.render(launch)

    def submit(self, launch: Launch) -> Handle:
        return self._step(lambda: self._inner.submit(launch))

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        return self._step(lambda: self._inner.observe(handles))

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        self._step(lambda: self._inner.cancel(handle, force=force))

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        return self._step(lambda: self._inner.read_log(handle, offset, limit))

    def release(self, handle: Handle) -> None:
        self._step(lambda: self._inner.release(handle))

    def rescue(self, launch: Launch) -> bool:
        return self._step(lambda: _rescued(self._backend, launch.attempt_id))

    def _step(self, call: Callable[[], T]) -> T:
        self._fuse.pass_by()
        result = call()
        self._fuse.pass_by()
        return result


def _rescued(backend: MemoryBackend, attempt_id: str) -> bool:
    """A second runner comes to its end at once, knowing nothing of how the command ended."""
    attempt = backend.attempts.get(attempt_id)
    if attempt is None or attempt.exit is not None:
        return False
    backend.end(attempt_id, ExitRecord(lost=True))
    return True


class CrashingWorld(World):
    """All its servers, one after the other, use one pool of connections: statements stay built."""

    _database: Database | None = None

    def restart(self, driver: Driver | None = None, fuse: Fuse | None = None) -> None:
        driver = CrashingDriver(self.backend, fuse or Fuse(0))
        if self._database is not None:
            vars(self._database).pop("write", None)
        self.plane = make_plane(self._folder, {"local": driver}, self._database)
        self._database = self.plane.database
        self.plane.now = self.clock.now
        self.plane.started_at = self.clock.now()
        self.reconciler = Reconciler(self.plane, "local", driver)
        if fuse is not None:
            self._fuse_transactions(self._database, fuse)

    def _fuse_transactions(self, database: Database, fuse: Fuse) -> None:
        """The process may die before each of them, and after it is on disk."""
        write = database.write

        @contextmanager
        def fused() -> Iterator[Any]:
            fuse.pass_by()
            with write() as connection:
                yield connection
            fuse.pass_by()

        database.write = fused  # type: ignore[method-assign]


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


LIVES: dict[Life, str] = {
    completed: "Completed",
    reported: "Completed",
    stubborn: "Canceled",
    lost: "Failed",
}


@pytest.mark.parametrize("life", LIVES, ids=lambda life: str(life.__name__))
def test_whenever_the_server_dies_the_run_ends_once_and_right(
    tmp_path: Path, clock: Clock, life: Life
) -> None:
    world = CrashingWorld(tmp_path, clock)
    points = 1
    while _die_at(points, world, life):
        points += 1
    assert points > 10
    world.plane.close()


def _die_at(point: int, world: CrashingWorld, life: Life) -> bool:
    """Whether there was such a point."""
    run_id, other = world.submit(), world.submit()
    fuse = Fuse(point)
    world.restart(fuse=fuse)
    try:
        _live(world, run_id, life)
    except Crash:
        world.restart()
        _live(world, run_id, life)
    fuse.left = 0
    assert world.status(run_id) == LIVES[life]
    _live(world, other, completed)
    _check(world, run_id)
    return fuse.blown


def _live(world: CrashingWorld, run_id: str, life: Life) -> None:
    """A run's life up to its end, picking up wherever it was left."""
    for _ in range(20):
        world.tick(5)
        if world.status(run_id) in ("Completed", "Canceled", "Failed"):
            if world.attempt(run_id).released_at is not None:
                return
        elif world.status(run_id) != "Queued":
            life(world, run_id)


def _check(world: World, run_id: str) -> None:
    """Started once at most, cleared away, told once each."""
    assert set(world.backend.starts.values()) <= {1}
    assert world.backend.attempts == {}
    attempt = world.attempt(run_id)
    assert attempt.number == 1
    log = world.plane.logs.read(log_key(run_id, attempt.id), 0, 1000)
    assert log in (TEXT.encode(), b"")
    assert log or world.status(run_id) != "Completed"
