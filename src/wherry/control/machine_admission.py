"""Who starts on one machine: the queue's head as far as there is room and, in a burst, one more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from wherry.core.ids import new_uuid
from wherry.core.lifecycle import Status
from wherry.core.placement import Placement, Used, Waiting, free_of, place
from wherry.core.resources import Resources
from wherry.core.targets import sharing
from wherry.drivers.base import Health
from wherry.store import attempts, queues, runs
from wherry.store.runs import Change

from .admission import Admitted, Chosen
from .plane import Plane
from .standby import Standby


class MachineAdmission:
    """``standby`` knows who waits, with an attempt already, for another's room."""

    def __init__(self, plane: Plane, target: str, standby: Standby) -> None:
        self._plane = plane
        self._target = target
        self._sharing = sharing(target)
        self._standby = standby
        self.held_back = False

    def admit(self, connection: Connection, health: Health, *, burst: bool) -> Chosen:
        """Those that start once this is on disk, and the next one."""
        self._plane.at_rest.discard(self._target)
        sharing = [each for each in self._sharing if each not in self._plane.at_rest]
        total = sum((node.resources for node in health.nodes), Resources(0, 0, 0))
        gpus = [gpu for node in health.nodes for gpu in node.gpus]
        used = {
            each.id: _used(each)
            for target in sharing
            for each in attempts.active(connection, target)
        }
        starting: list[Admitted] = []
        following = list(self._standby.waiting)
        started = {each: room for each, room in used.items() if not self._standby.waits(each)}
        while following and _fits(following[0], total, started):
            starting.append(following.pop(0))
            room = starting[-1].place
            started[starting[-1].attempt_id] = Used(room.resources, room.gpus)
        most = int(total.cpu) * 4 + 1
        head = queues.head(connection, self._target, most, lock=True)
        mine = {run.id for run in head}
        others = [each for each in sharing if each != self._target]
        queue = [_waiting(run) for run in self._in_order(connection, head, others, most)]
        placements = place(queue, total, gpus, [*used.values()])
        starting += [
            self._give_attempt(connection, each) for each in placements if each.run_id in mine
        ]
        if any(each.run_id not in mine for each in placements):
            self._tell_others()
        rest = queue[len(placements) :]
        held = [*used.values(), *(Used(each.resources, each.gpus) for each in placements)]
        rooms = [each.resources for each in held if not each.gpus]
        for each in rest[: self._standby.depth - len(following)] if burst else ():
            if each.run_id not in mine or each.resources not in rooms:
                break
            following.append(self._give_attempt(connection, Placement(each.run_id, each.resources)))
        self.held_back = bool(following) or any(each.run_id in mine for each in rest)
        return Chosen(starting, following)

    def _in_order(
        self, connection: Connection, own: list[Any], others: list[str], most: int
    ) -> list[Any]:
        """With those who came before and wait for another target on this machine, as long as that
        one can be used.
        """
        before = [
            run
            for target in others
            if target not in self._plane.problems
            for run in queues.head(connection, target, most)
        ]
        return sorted([*own, *before], key=lambda run: int(run.seq)) if own and before else own

    def _tell_others(self) -> None:
        """There is room for one of theirs."""
        for target in self._sharing:
            if target != self._target:
                self._plane.hint(target)

    def _give_attempt(self, connection: Connection, placement: Placement) -> Admitted:
        run = runs.get(connection, placement.run_id)
        attempt_id, now = new_uuid(), self._plane.now()
        number = attempts.add(connection, run, attempt_id, placement, now)
        runs.move(connection, run, Status.STARTING, now, Change(attempt_count=number))
        return Admitted(run, attempt_id, placement)


def _fits(waiting: Admitted, total: Resources, used: Mapping[str, Used]) -> bool:
    others = [each for attempt_id, each in used.items() if attempt_id != waiting.attempt_id]
    return waiting.place.resources.fits(free_of(total, others))


def _waiting(run: Any) -> Waiting:
    return Waiting(run.id, Resources(run.cpu, run.memory_bytes, run.gpu))


def _used(attempt: Any) -> Used:
    gpus = tuple(attempt.gpus)
    return Used(Resources(attempt.cpu, attempt.memory_bytes, len(gpus)), gpus)
