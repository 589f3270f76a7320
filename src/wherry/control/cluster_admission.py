"""Who starts on a cluster: whole nodes, all that a run asks for or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core import autoscale
from wherry.core.ids import new_uuid
from wherry.core.lifecycle import Status
from wherry.core.placement import Placement
from wherry.core.resources import Resources
from wherry.drivers.base import Health
from wherry.store import attempts, computes, nodes, runs
from wherry.store.runs import Change

from .admission import Admitted, Chosen
from .cluster_views import config_of, node_views, queue
from .plane import Plane


class ClusterAdmission:
    """``room`` says how many more nodes the site could give, where that is known."""

    def __init__(self, plane: Plane, target: str, room: Callable[[], int | None]) -> None:
        self._plane = plane
        self._target = target
        self._room = room
        self.held_back = False

    def admit(self, connection: Connection, health: Health, *, burst: bool) -> Chosen:
        """Those that start once this is on disk."""
        del health, burst  # its nodes are rows
        row = computes.find(connection, self._target, lock=True)
        if row is None or row.stopped_at is not None or row.deleting_at is not None:
            return Chosen([])
        config = config_of(row)
        present = {node.id: node for node in nodes.present(connection, self._target)}
        views = node_views([*present.values()], nodes.busy(connection, self._target))
        waiting = queue(connection, self._target, config)
        now = self._plane.now().timestamp()
        plan = autoscale.admit(waiting, views, config, now, self._room())
        started = [
            each
            for run_id, node_ids in plan.starts
            for each in self._start(connection, run_id, [present[node] for node in node_ids])
        ]
        self.held_back = len(plan.starts) < len(waiting)
        return Chosen(started)

    def _start(
        self, connection: Connection, run_id: str, given: Sequence[Row[Any]]
    ) -> list[Admitted]:
        """An attempt for each node, all with the same number."""
        run = runs.get(connection, run_id, lock=True)
        if run.status != Status.QUEUED.value or run.cancel_requested_at is not None:
            return []
        now, number = self._plane.now(), 0
        members = []
        for rank, node in enumerate(given):
            owned = Resources(node.cpu, node.memory_bytes, len(node.gpus))
            place = Placement(run_id, owned, tuple(node.gpus), node.id, rank)
            attempt_id = new_uuid()
            number = attempts.add(connection, run, attempt_id, place, now)
            members.append(Admitted(run, attempt_id, place))
        runs.move(connection, run, Status.STARTING, now, Change(attempt_count=number))
        return members
