"""A cluster's rows as the pure functions see them: its configuration, nodes and queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core import autoscale
from wherry.core.autoscale import Actions, Config
from wherry.core.compute_configs import ClusterConfig
from wherry.core.nodes import NodeState, NodeView
from wherry.core.scheduling import Job, Schedule
from wherry.store import nodes, queues

_LEAST, _MOST = 200, 2000


def config_of(row: Row[Any]) -> Config:
    """One that is stopped, or going, has no nodes but those at work."""
    config = ClusterConfig(**row.config)
    if row.stopped_at is not None or row.deleting_at is not None:
        return Config(0, 0, 0.0)
    return Config(config.min_nodes, config.max_nodes, float(config.idle_seconds))


class ClusterView:
    """A cluster at one moment."""

    def __init__(self, connection: Connection, row: Row[Any], now: datetime) -> None:
        self._connection = connection
        self._target = row.target
        self.config = config_of(row)
        self.present = {node.id: node for node in nodes.present(connection, row.target)}
        busy = nodes.busy(connection, row.target)
        self.nodes = node_views([*self.present.values()], busy)
        self.now = now.timestamp()

    def queue(self, room: int | None) -> list[Job]:
        """Its head: further back nobody starts before one of these.

        Without those that ask for more nodes than can be had as things stand: many of them would
        hide the others.
        """
        limit = min(_MOST, max(_LEAST, 2 * self.config.max_nodes))
        reach = autoscale.reach(self.nodes, self.config, self.now, room)
        return [
            Job(run.id, run.node_count, run.priority, float(run.seq))
            for run in queues.head_for_nodes(self._connection, self._target, reach, limit)
        ]

    def admit(self, waiting: Sequence[Job], room: int | None) -> Schedule:
        return autoscale.admit(waiting, self.nodes, self.config, self.now, room)

    def decide(self, room: int | None) -> Actions:
        return autoscale.decide(self.queue(room), self.nodes, self.config, self.now, room)


def node_views(present: Sequence[Row[Any]], busy: Mapping[str, str]) -> list[NodeView]:
    return [_view(node, busy.get(node.id)) for node in present]


def seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _view(node: Row[Any], run_id: str | None) -> NodeView:
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
    )
