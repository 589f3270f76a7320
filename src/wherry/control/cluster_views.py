"""A cluster's rows as the pure functions see them: its configuration, nodes and queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core import autoscale, holding
from wherry.core.autoscale import Actions, Config
from wherry.core.compute_configs import cluster_of
from wherry.core.nodes import NodeState, NodeView, freshest
from wherry.core.scheduling import Job, Schedule
from wherry.store import nodes, queues

from .launch import PREEMPTION_GRACE_S
from .plane import Plane

_LEAST, _MOST = 200, 2000


def config_of(row: Row[Any]) -> Config:
    """One that is stopped, or going, has no nodes but those at work."""
    config = cluster_of(row.kind, row.config)
    if row.stopped_at is not None or row.deleting_at is not None:
        return Config(0, 0, 0.0)
    return Config(config.min_nodes, config.max_nodes, float(config.idle_seconds))


class ClusterView:
    """A cluster at one moment."""

    def __init__(self, plane: Plane, connection: Connection, row: Row[Any]) -> None:
        self._connection = connection
        self._target = row.target
        self._grace_s = max(plane.settings.cancel_grace_s, PREEMPTION_GRACE_S)
        self.now = plane.now().timestamp()
        self.config = config_of(row)
        self.present = {node.id: node for node in nodes.present(connection, row.target)}
        self.held = nodes.held(connection, row.target)
        busy = {each.node_id: each for each in self.held}
        self.nodes = [self._view(node, busy.get(node.id)) for node in self.present.values()]

    def reach(self, room: int | None) -> int:
        """How many nodes it can have as things stand."""
        return autoscale.reach(self.nodes, self.config, self.now, room)

    def queue(self, room: int | None) -> list[Job]:
        """Its head: further back nobody starts before one of these.

        Without those that ask for more nodes than can be had as things stand: many of them would
        hide the others.
        """
        limit = min(_MOST, max(_LEAST, 2 * self.config.max_nodes))
        reach = self.reach(room)
        return [
            Job(run.id, run.node_count, run.priority, float(run.seq), self._longest_s(run))
            for run in queues.head_for_nodes(self._connection, self._target, reach, limit)
        ]

    def admit(self, waiting: Sequence[Job], room: int | None) -> Schedule:
        return autoscale.admit(waiting, self.nodes, self.config, self.now, room)

    def decide(self, room: int | None) -> Actions:
        return autoscale.decide(self.queue(room), self.nodes, self.config, self.now, room)

    def idle(self) -> list[str]:
        """The longest idle first."""
        found = [node for node in self.nodes if node.state is NodeState.IDLE]
        return [node.id for node in reversed(freshest(found))]

    def ready(self) -> int:
        """How many have no run, or soon will be there without one."""
        states = (NodeState.IDLE, NodeState.PREPARING)
        return sum(node.state in states for node in self.nodes)

    def has_trouble(self) -> bool:
        """Whether some of its nodes do not start, or cannot be used."""
        return any(node.tries or node.state is NodeState.UNUSABLE for node in self.nodes)

    def above_minimum(self) -> int:
        states = (NodeState.RUNNING, NodeState.IDLE, NodeState.PREPARING)
        usable = sum(node.state in states for node in self.nodes)
        return usable - min(self.config.min_nodes, self.config.max_nodes)

    def _longest_s(self, run: Row[Any]) -> float | None:
        """One that starts again may have much to fetch first."""
        return None if run.attempt_count else holding.longest_s(run.limit_s, self._grace_s)

    def _view(self, node: Row[Any], holder: Row[Any] | None) -> NodeView:
        if holder is None:
            return _view(node, None)
        return _view(node, holder.run_id, self._until(holder))

    def _until(self, holder: Row[Any]) -> float | None:
        """Of one that was started again it is not known when this attempt's command began."""
        if holder.number > 1:
            return None
        given, begun = holder.created_at.timestamp(), seconds(holder.started_at)
        return holding.until(holder.limit_s, self._grace_s, given, begun, self.now)


def node_views(present: Sequence[Row[Any]], busy: Mapping[str, str]) -> list[NodeView]:
    return [_view(node, busy.get(node.id)) for node in present]


def seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _view(node: Row[Any], run_id: str | None, until: float | None = None) -> NodeView:
    state = NodeState(node.state)
    if run_id is not None and state is NodeState.IDLE:
        state = NodeState.RUNNING
    return NodeView(
        id=node.id,
        state=state,
        idle_since=seconds(node.idle_since),
        tries=node.tries,
        since=node.state_since.timestamp(),
        run_id=run_id,
        until=until,
    )
