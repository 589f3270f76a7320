"""Who starts on a target: the queue's head as far as there is room and, in a burst, one more."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from wherry.core.ids import new_uuid
from wherry.core.lifecycle import Status
from wherry.core.placement import Placement, Used, Waiting, free_of, place
from wherry.core.resources import Resources
from wherry.drivers.base import Health
from wherry.store import attempts, queues, runs
from wherry.store.runs import Change

from .plane import Plane

LATE_S = 1.0


class Admitted(NamedTuple):
    """A run that was given an attempt, and the room for it."""

    run: Any
    attempt_id: str
    place: Placement


class Chosen(NamedTuple):
    starting: list[Admitted]
    following: Admitted | None


class Admission:
    """While short runs are handed over, one more than fits is admitted.

    It waits, on disk already, to start at the moment that another hands back the room it needs,
    before the next transaction. ``held_back`` says that the queue has more than there is room for.
    """

    def __init__(self, plane: Plane, target: str) -> None:
        self._plane = plane
        self._target = target
        self._rooms: dict[str, Resources] = {}
        self._next: Admitted | None = None
        self._since = 0.0
        self.held_back = False

    def started(self, attempt_id: str, place: Placement) -> None:
        if not place.gpus:
            self._rooms[attempt_id] = place.resources

    def ended(self, attempt_id: str) -> None:
        self._rooms.pop(attempt_id, None)

    def waits(self, attempt_id: str) -> bool:
        """Whether it is the one that is not to be started yet."""
        return self._next is not None and self._next.attempt_id == attempt_id

    def successors(self, ended: Sequence[str]) -> Iterator[Admitted]:
        """Who starts now in the room of attempts that were handed over."""
        for attempt_id in ended:
            room = self._rooms.pop(attempt_id, None)
            if self._next is not None and room == self._next.place.resources:
                admitted, self._next = self._next, None
                yield admitted

    def admit(self, connection: Connection, health: Health, *, burst: bool) -> Chosen:
        """Those that start once this is on disk, and the next one."""
        total = sum((node.resources for node in health.nodes), Resources(0, 0, 0))
        gpus = [gpu for node in health.nodes for gpu in node.gpus]
        used = {each.id: _used(each) for each in attempts.active(connection, self._target)}
        starting: list[Admitted] = []
        following = self._next
        if following is not None and _fits(following, total, used):
            starting, following = [following], None
        head = queues.head(connection, self._target, int(total.cpu) * 4 + 1, lock=True)
        queue = [Waiting(run.id, Resources(run.cpu, run.memory_bytes, run.gpu)) for run in head]
        placements = place(queue, total, gpus, [*used.values()])
        starting += [self._give_attempt(connection, each) for each in placements]
        rest = queue[len(placements) :]
        self.held_back = bool(rest)
        if burst and rest and following is None:
            held = [*used.values(), *(Used(each.resources, each.gpus) for each in placements)]
            if rest[0].resources in [each.resources for each in held if not each.gpus]:
                alike = Placement(rest[0].run_id, rest[0].resources)
                following = self._give_attempt(connection, alike)
        return Chosen(starting, following)

    def admitted(self, chosen: Chosen) -> list[Admitted]:
        """It is on disk: those to start."""
        if chosen.following is not self._next:
            self._next, self._since = chosen.following, time.monotonic()
        return chosen.starting

    def withdraw_late(self) -> None:
        """One that waits for longer than short runs take, or is wanted no more, queues again."""
        if self._next is None:
            return
        with self._plane.database.read() as connection:
            run = runs.find(connection, self._next.run.id)
        wanted = run is not None and run.cancel_requested_at is None
        if not wanted or time.monotonic() - self._since >= LATE_S:
            self.withdraw()

    def withdraw(self) -> None:
        if self._next is None:
            return
        waiting, self._next = self._next, None
        with self._plane.write() as connection:
            attempts.forget(connection, waiting.attempt_id)
            run = runs.find(connection, waiting.run.id, lock=True)
            if run is not None and run.status == Status.STARTING.value:
                count = Change(attempt_count=waiting.run.attempt_count)
                runs.move(connection, run, Status.QUEUED, self._plane.now(), count)

    def _give_attempt(self, connection: Connection, placement: Placement) -> Admitted:
        run = runs.get(connection, placement.run_id)
        attempt_id, now = new_uuid(), self._plane.now()
        number = attempts.add(connection, run, attempt_id, placement, now)
        runs.move(connection, run, Status.STARTING, now, Change(attempt_count=number))
        return Admitted(run, attempt_id, placement)


def _fits(waiting: Admitted, total: Resources, used: Mapping[str, Used]) -> bool:
    others = [each for attempt_id, each in used.items() if attempt_id != waiting.attempt_id]
    return waiting.place.resources.fits(free_of(total, others))


def _used(attempt: Any) -> Used:
    gpus = tuple(attempt.gpus)
    return Used(Resources(attempt.cpu, attempt.memory_bytes, len(gpus)), gpus)
