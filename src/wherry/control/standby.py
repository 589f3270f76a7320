"""One run more than fits, which starts at the moment that another hands back its room."""

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


class Standby:
    """It waits, on disk already, so that it need not wait for the next transaction."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._rooms: dict[str, Resources] = {}
        self._since = 0.0
        self.next: Admitted | None = None

    def follow(self, admitted: Admitted | None) -> None:
        """It is on disk: this one stands by."""
        if admitted is not self.next:
            self.next, self._since = admitted, time.monotonic()

    def started(self, attempt_id: str, place: Placement) -> None:
        if not place.gpus:
            self._rooms[attempt_id] = place.resources

    def ended(self, attempt_id: str) -> None:
        self._rooms.pop(attempt_id, None)

    def waits(self, attempt_id: str) -> bool:
        """Whether it is the one that is not to be started yet."""
        return self.next is not None and self.next.attempt_id == attempt_id

    def successors(self, ended: Sequence[str]) -> Iterator[Admitted]:
        """Who starts now in the room of attempts that were handed over."""
        for attempt_id in ended:
            room = self._rooms.pop(attempt_id, None)
            if self.next is not None and room == self.next.place.resources:
                admitted, self.next = self.next, None
                yield admitted

    def withdraw_late(self) -> None:
        """One that waits for longer than short runs take, or is wanted no more, queues again."""
        if self.next is None:
            return
        with self._plane.database.read() as connection:
            run = runs.find(connection, self.next.run.id)
        wanted = run is not None and run.cancel_requested_at is None
        if not wanted or time.monotonic() - self._since >= LATE_S:
            self.withdraw()

    def withdraw(self) -> None:
        if self.next is None:
            return
        waiting, self.next = self.next, None
        with self._plane.write() as connection:
            attempts.forget(connection, waiting.attempt_id)
            run = runs.find(connection, waiting.run.id, lock=True)
            if run is not None and run.status == Status.STARTING.value:
                count = Change(attempt_count=waiting.run.attempt_count)
                runs.move(connection, run, Status.QUEUED, self._plane.now(), count)
