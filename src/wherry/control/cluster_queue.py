"""What the queued runs of a cluster wait for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import CLUSTER, cluster_of
from wherry.core.waiting import for_nodes
from wherry.store import computes

from .cluster_views import ClusterView
from .compute_records import doing, problem
from .crowding import crowded
from .plane import Plane


class ClusterQueue:
    """Read once for all runs that stand in it."""

    def __init__(self, plane: Plane, connection: Connection, row: Row[Any]) -> None:
        self._row = row
        self._config = cluster_of(row.kind, row.config)
        self._room = plane.rooms.get(row.target)
        view = ClusterView(plane, connection, row)
        self._views = view.nodes
        self._reach = view.reach(self._room)
        waiting = view.queue(self._room)
        self._order = [job.run_id for job in waiting]
        self._plan = view.admit(waiting, self._room)
        present = [*view.present.values()]
        self._problem = problem(plane, connection, row, present) or doing(plane, present) or ""
        self._crowded = crowded(connection, row)

    def explain(self, run: Any) -> str:
        name = self._row.name
        if self._row.stopped_at is not None:
            return f"compute target {name!r} is stopped: wherry compute start {name}"
        kept_for = self._kept_for(run)
        return for_nodes(
            run.node_count,
            name,
            self._views,
            self._config.max_nodes,
            ahead=self._ahead(run),
            kept_for=kept_for,
            kept_from=self._plan.by if kept_for else None,
            site_room=self._room,
            crowded=self._crowded,
            problem=self._problem,
        )

    def _ahead(self, run: Any) -> int:
        """Nobody is before one that cannot start now whoever ends."""
        if run.node_count > self._reach:
            return 0
        return self._order.index(run.id) if run.id in self._order else len(self._order)

    def _kept_for(self, run: Any) -> str:
        """The run that has the idle nodes, if it is another one."""
        head = self._plan.held_for
        return head.run_id if head is not None and head.run_id != run.id else ""


def cluster_queue(plane: Plane, connection: Connection, target: str) -> ClusterQueue | None:
    """None for what is no cluster."""
    row = computes.find(connection, target)
    return ClusterQueue(plane, connection, row) if row is not None and row.kind == CLUSTER else None
