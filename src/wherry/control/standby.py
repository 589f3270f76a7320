"""Runs more than fit, which start at the moment that others hand back their room."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from wherry.core.lifecycle import Status
from wherry.core.placement import Placement
from wherry.core.resources import Resources
from wherry.store import attempts, runs
from wherry.store.runs import Change

from .admission import Admitted
from .plane import Plane

LATE_S = 1.0
DEPTH = 4


class Standby:
    """They wait, on disk already, so that they need not wait for the next transaction.

    ``depth`` is how many there may be: more than one where a later server can tell that they were
    never started, and need not start them all at once.
    """

    def __init__(self, plane: Plane, depth: int = 1) -> None:
        self._plane = plane
        self._rooms: dict[str, Resources] = {}
        self._since: dict[str, float] = {}
        self.depth = depth
        self.waiting: list[Admitted] = []

    def follow(self, admitted: Sequence[Admitted]) -> None:
        """They are on disk: these stand by."""
        now = time.monotonic()
        self._since = {each.attempt_id: self._since.get(each.attempt_id, now) for each in admitted}
        self.waiting = list(admitted)

    def started(self, attempt_id: str, place: Placement) -> None:
        if not place.gpus:
            self._rooms[attempt_id] = place.resources

    def ended(self, attempt_id: str) -> None:
        self._rooms.pop(attempt_id, None)

    def waits(self, attempt_id: str) -> bool:
        """Whether it is one that is not to be started yet."""
        return any(each.attempt_id == attempt_id for each in self.waiting)

    def successors(self, ended: Sequence[str]) -> Iterator[Admitted]:
        """Who starts now in the room of attempts that were handed over."""
        for attempt_id in ended:
            room = self._rooms.pop(attempt_id, None)
            if self.waiting and room == self.waiting[0].place.resources:
                yield self.waiting.pop(0)

    def withdraw_late(self) -> None:
        """Those that wait for longer than short runs take, or are wanted no more, queue again."""
        for admitted in list(self.waiting):
            with self._plane.database.read() as connection:
                run = runs.find(connection, admitted.run.id)
            wanted = run is not None and run.cancel_requested_at is None
            if not wanted or time.monotonic() - self._since[admitted.attempt_id] >= LATE_S:
                self._withdraw(admitted)

    def withdraw(self) -> None:
        for admitted in list(self.waiting):
            self._withdraw(admitted)

    def _withdraw(self, admitted: Admitted) -> None:
        self.waiting.remove(admitted)
        run = admitted.run
        queue_again(self._plane, run.id, admitted.attempt_id, run.attempt_count)


def queue_again(plane: Plane, run_id: str, attempt_id: str, attempt_count: int) -> None:
    """The run of an attempt that was surely never started, as if there had been none."""
    with plane.write() as connection:
        attempts.forget(connection, attempt_id)
        run = runs.find(connection, run_id, lock=True)
        if run is not None and run.status == Status.STARTING.value:
            count = Change(attempt_count=attempt_count)
            runs.move(connection, run, Status.QUEUED, plane.now(), count)
