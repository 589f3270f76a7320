"""Who starts on a cluster: whole nodes, all that a run asks for or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.gang import PREEMPTED
from wherry.core.holding import SETUP_S
from wherry.core.ids import new_uuid
from wherry.core.lifecycle import Status
from wherry.core.placement import Placement
from wherry.core.resources import Resources
from wherry.core.scheduling import Job
from wherry.drivers.base import Health
from wherry.store import attempts, computes, runs
from wherry.store.runs import Change

from .admission import Admitted, Chosen
from .cluster_views import ClusterView
from .plane import Plane
from .turns import Turns

_SETUP = timedelta(seconds=SETUP_S)


class ClusterAdmission:
    """``room`` says how many more nodes the site could give, where that is known."""

    def __init__(
        self, plane: Plane, target: str, room: Callable[[], int | None], turns: Turns
    ) -> None:
        self._plane = plane
        self._target = target
        self._room = room
        self._turns = turns
        self.held_back = False

    def admit(self, connection: Connection, health: Health, *, burst: bool) -> Chosen:
        """Those that start once this is on disk."""
        del health, burst  # its nodes are rows
        row = computes.find(connection, self._target, lock=True)
        if row is None or row.stopped_at is not None or row.deleting_at is not None:
            return Chosen([])
        view = ClusterView(self._plane, connection, row)
        room = self._room()
        waiting = view.queue(room)
        if self._turns.give(connection, row, view, waiting):
            view = ClusterView(self._plane, connection, row)
            waiting = view.queue(room)
        plan = view.admit(waiting, room)
        if waiting:
            self._withdraw_late(connection, view, waiting[0])
        started = [
            each
            for run_id, node_ids in plan.starts
            for each in self._start(
                connection,
                run_id,
                [view.present[node] for node in node_ids],
                filling=run_id in plan.filling,
            )
        ]
        self.held_back = len(plan.starts) < len(waiting)
        return Chosen(started)

    def _withdraw_late(self, connection: Connection, view: ClusterView, head: Job) -> None:
        """Those that fill a gap before the head and still have not begun queue again.

        This server has to have been there long enough to hear that they have.
        """
        now = self._plane.now()
        if now - self._plane.attentive_since < _SETUP:
            return
        asked = {"stop_wanted_at": now, "stop_reason": PREEMPTED}
        for each in view.held:
            late = each.ready_by is not None and each.ready_by < now and each.started_at is None
            behind = (-each.priority, each.seq) > (-head.priority, head.submitted)
            if late and behind and each.stop_wanted_at is None:
                attempts.change(connection, each.id, asked)

    def _start(
        self, connection: Connection, run_id: str, given: Sequence[Row[Any]], *, filling: bool
    ) -> list[Admitted]:
        """An attempt for each node, all with the same number."""
        run = runs.get(connection, run_id, lock=True)
        if run.status != Status.QUEUED.value or run.cancel_requested_at is not None:
            return []
        now, number = self._plane.now(), 0
        ready_by = now + _SETUP if filling else None
        members = []
        for rank, node in enumerate(given):
            owned = Resources(node.cpu, node.memory_bytes, len(node.gpus))
            place = Placement(run_id, owned, tuple(node.gpus), node.id, rank)
            attempt_id = new_uuid()
            number = attempts.add(connection, run, attempt_id, place, now, ready_by)
            members.append(Admitted(run, attempt_id, place))
        runs.move(connection, run, Status.STARTING, now, Change(attempt_count=number))
        return members
