"""What ended attempts leave on a target is cleared away while nobody waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from wherry.core.lifecycle import Observation, Phase
from wherry.drivers.base import Driver, Handle
from wherry.store import attempts, computes, runs

from . import run_logs
from .plane import Plane
from .troubles import Troubles

CALM = timedelta(seconds=5)
AFTER = timedelta(seconds=2)
LATEST = timedelta(seconds=60)
AT_ONCE = 200


class Clearing:
    """While runs start the machine has better things to do, though not for ever.

    Besides, file systems that have just deleted thousands of files are slow to make new ones.
    """

    def __init__(self, plane: Plane, target: str, driver: Driver, troubles: Troubles) -> None:
        self._plane = plane
        self._target = target
        self._driver = driver
        self._troubles = troubles
        self._started_at: datetime | None = None

    def started(self) -> None:
        """A run has been started just now."""
        self._started_at = self._plane.now()

    def sweep(self, *, held_back: bool) -> Sequence[Any]:
        """The attempts that were looked at; those of them that are still alive are ended."""
        ended = self._ended(self._after(held_back))
        handles = [Handle(attempt.handle) for attempt in ended if attempt.handle is not None]
        seen = self._driver.observe(handles) if handles else {}
        cleared = [attempt for attempt in ended if self._clear(attempt, seen)]
        if cleared:
            self._note(cleared)
        return ended

    def _after(self, held_back: bool) -> timedelta:
        """A target that is being deleted waits for nothing else."""
        with self._plane.database.read() as connection:
            row = computes.find(connection, self._target)
        if row is not None and row.deleting_at is not None:
            return timedelta(0)
        return LATEST if held_back or self._busy() else AFTER

    def _busy(self) -> bool:
        if self._started_at is None:
            return False
        return timedelta(0) <= self._plane.now() - self._started_at < CALM

    def _ended(self, after: timedelta) -> list[Any]:
        now = self._plane.now()
        with self._plane.database.read() as connection:
            due = attempts.to_release(connection, self._target, now - after, now, AT_ONCE)
            return [
                attempt
                for attempt in due
                # Without a handle it is adopted first, unless its run is gone.
                if attempt.handle is not None or runs.find(connection, attempt.run_id) is None
            ]

    def _clear(self, attempt: Any, seen: Mapping[Handle, Observation]) -> bool:
        """Whether nothing of the attempt is left on the target."""
        cleared = False
        with self._troubles.alone(attempt.run_id, attempt.id):
            handle = Handle(attempt.handle or "")
            if handle and seen[handle].phase in (Phase.RUNNING, Phase.PENDING):
                self._driver.cancel(handle, force=True)
            else:
                if handle:
                    self._driver.release(handle)
                cleared = True
        return cleared

    def _note(self, cleared: Sequence[Any]) -> None:
        deleted = []
        with self._plane.write() as connection:
            for attempt in cleared:
                attempts.change(connection, attempt.id, {"released_at": self._plane.now()})
                if runs.find(connection, attempt.run_id) is None:
                    attempts.remove(connection, [attempt.run_id])
                    deleted.append(attempt)
        for attempt in deleted:  # whoever deleted the run may have been killed before its log went
            run_logs.remove(self._plane, attempt.run_id, attempt.id)
