"""Who starts on a compute instance: its session, and runs as far as the node has room for them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.ids import new_uuid
from wherry.core.lifecycle import Status
from wherry.core.placement import Placement, Used, Waiting, place
from wherry.core.resources import Resources
from wherry.drivers.base import Health
from wherry.store import attempts, computes, nodes, queues, runs
from wherry.store.runs import Change

from .admission import Admitted, Chosen
from .plane import Plane


class InstanceAdmission:
    """Its node is a row; runs share it, as they share a machine."""

    def __init__(self, plane: Plane, target: str) -> None:
        self._plane = plane
        self._target = target
        self.held_back = False

    def admit(self, connection: Connection, health: Health, *, burst: bool) -> Chosen:
        del health, burst
        row = computes.find(connection, self._target, lock=True)
        if row is None or row.stopped_at is not None or row.deleting_at is not None:
            return Chosen([])
        there = [each for each in nodes.present(connection, self._target) if _works(each)]
        return self._share(connection, there[0]) if there else Chosen([])

    def _share(self, connection: Connection, node: Row[Any]) -> Chosen:
        used = [_used(each) for each in attempts.active(connection, self._target)]
        total = Resources(node.cpu, node.memory_bytes, len(node.gpus))
        head = queues.head(connection, self._target, int(total.cpu) * 4 + 1, lock=True)
        queue = [Waiting(run.id, Resources(run.cpu, run.memory_bytes, run.gpu)) for run in head]
        session = queues.session(connection, self._target)
        if session is not None:
            others = [each for each in queue if each.run_id != session]
            queue = [Waiting(session, Resources(0, 0, 0)), *others]
        placed = place(queue, total, node.gpus, used)
        self.held_back = len(placed) < len(queue)
        return Chosen([self._start(connection, each, node) for each in placed])

    def _start(self, connection: Connection, placed: Placement, node: Row[Any]) -> Admitted:
        there = Placement(placed.run_id, placed.resources, placed.gpus, node.id)
        run, attempt_id, now = runs.get(connection, placed.run_id), new_uuid(), self._plane.now()
        number = attempts.add(connection, run, attempt_id, there, now)
        runs.move(connection, run, Status.STARTING, now, Change(attempt_count=number))
        return Admitted(run, attempt_id, there)


def _works(node: Row[Any]) -> bool:
    return bool(node.state == nodes.IDLE)


def _used(attempt: Any) -> Used:
    gpus = tuple(attempt.gpus)
    return Used(Resources(attempt.cpu, attempt.memory_bytes, len(gpus)), gpus)
