"""A server that dies at a given step of its loop, and the next one on the same home."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import event

from tests.planes import make_plane
from tests.unit.control.test_reconciler import Clock, World
from wherry.control.reconciler import Reconciler
from wherry.core.lifecycle import ExitRecord, Observation
from wherry.drivers.base import Driver, Handle, Health, Launch
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.store import attempts
from wherry.store.database import Database

P = ParamSpec("P")
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


def fused(call: Callable[P, T], fuse: Fuse) -> Callable[P, T]:
    """The process may die before it and after it."""

    def passing(*arguments: P.args, **options: P.kwargs) -> T:
        fuse.pass_by()
        result = call(*arguments, **options)
        fuse.pass_by()
        return result

    return passing


class CrashingDriver:
    """Its caller may die before and after each call. What was lost it can bring home, once.

    What it is handed dies with it: ``handed`` is a pipe of the server's process.
    """

    def __init__(self, backend: MemoryBackend, fuse: Fuse, inbox: int) -> None:
        self._inner = MemoryDriver(backend)
        self._backend = backend
        self._fuse = fuse
        self._inbox = inbox
        self.handed: list[dict[str, Any]] = []

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

    def inbox(self) -> int:
        return self._inbox

    def reports(self) -> Sequence[Mapping[str, Any]]:
        handed, self.handed = self.handed, []
        return self._step(lambda: handed) if handed else []

    def _step(self, call: Callable[[], T]) -> T:
        return fused(call, self._fuse)()


class KnowingDriver(CrashingDriver):
    """Can tell what was never started."""

    def is_unknown(self, attempt_id: str) -> bool:
        return self._step(lambda: attempt_id not in self._backend.starts)


def _rescued(backend: MemoryBackend, attempt_id: str) -> bool:
    """A second runner comes to its end at once, knowing nothing of how the command ended."""
    attempt = backend.attempts.get(attempt_id)
    if attempt is None or attempt.exit is not None:
        return False
    backend.end(attempt_id, ExitRecord(lost=True))
    return True


class CrashingWorld(World):
    """All its servers, one after the other, use one pool of connections: statements stay built."""

    def __init__(
        self, folder: Path, clock: Clock, driver: type[CrashingDriver] = CrashingDriver
    ) -> None:
        self._make_driver = driver
        self._database: Database | None = None
        self._pipe = os.pipe()
        super().__init__(folder, clock)

    def restart(self, driver: Driver | None = None, fuse: Fuse | None = None) -> None:
        self.fuse = fuse or Fuse(0)
        self.driver = self._make_driver(self.backend, self.fuse, self._pipe[0])
        self._database = self._database or _hasty_database(self._folder)
        vars(self._database).pop("write", None)
        self.plane = make_plane(self._folder, {"local": self.driver}, self._database)
        self.plane.now = self.clock.now
        self.plane.started_at = self.clock.now()
        self.reconciler = Reconciler(self.plane, "local", self.driver)
        if fuse is not None:
            self._fuse_transactions(self._database, fuse)
            append = self.plane.logs.append
            self.plane.logs.append = fused(append, fuse)  # type: ignore[method-assign]

    def turn(self) -> None:
        self.clock.pass_s(0.1)
        self.reconciler.turn()

    def at_work(self, run_id: str) -> bool:
        """Whether its command has been started and has not ended."""
        found = [self.backend.attempts.get(each.id) for each in self.attempts(run_id)]
        return any(each is not None and each.exit is None for each in found)

    def waits(self, run_id: str) -> bool:
        """Whether it is admitted and not started yet."""
        ids = [each.id for each in self.attempts(run_id)]
        return self.status(run_id) == "Starting" and ids[-1] not in self.backend.starts

    def attempts(self, run_id: str) -> list[Any]:
        with self.plane.database.read() as connection:
            return list(attempts.of_run(connection, run_id))

    def hand_over(self, run_id: str, text: str) -> None:
        """Its runner ends, its exit record and log on disk, and tells the driver alone."""
        attempt_id = self.attempt(run_id).id
        self.backend.attempts[attempt_id].job.write(text)
        self.backend.end(attempt_id)
        log = b64encode(text.encode()).decode()
        exit = {"exit_code": 0}
        self.driver.handed.append(
            {"run_id": run_id, "attempt_id": attempt_id, "exit": exit, "log": log}
        )

    def close(self) -> None:
        super().close()
        for end in self._pipe:
            with suppress(OSError):
                os.close(end)
        self._pipe = (-1, -1)

    def _fuse_transactions(self, database: Database, fuse: Fuse) -> None:
        """The process may die before each of them, and after it is on disk."""
        write = database.write

        @contextmanager
        def fused_write() -> Iterator[Any]:
            fuse.pass_by()
            with write() as connection:
                yield connection
            fuse.pass_by()

        database.write = fused_write  # type: ignore[method-assign]


def _hasty_database(folder: Path) -> Database:
    """Does not wait for the disk: here processes die, machines do not."""
    database = Database(f"sqlite:///{folder / 'plane.db'}")
    event.listen(database.engine, "checkout", _hurry)
    return database


def _hurry(connection: Any, _record: Any, _proxy: Any) -> None:
    connection.execute("PRAGMA synchronous=OFF")
