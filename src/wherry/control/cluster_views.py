"""A cluster's rows as the pure functions see them: its configuration, nodes and queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.autoscale import Config
from wherry.core.compute_configs import ClusterConfig
from wherry.core.nodes import NodeState, NodeView
from wherry.core.scheduling import Job
from wherry.store import queues

_LEAST, _MOST = 200, 2000


def config_of(row: Row[Any]) -> Config:
    """One that is stopped, or going, has no nodes but those at work."""
    config = ClusterConfig(**row.config)
    if row.stopped_at is not None or row.deleting_at is not None:
        return Config(0, 0, 0.0)
    return Config(config.min_nodes, config.max_nodes, float(config.idle_seconds))


def node_views(present: Sequence[Row[Any]], busy: Mapping[str, str]) -> list[NodeView]:
    return [_view(node, busy.get(node.id)) for node in present]


def queue(connection: Connection, target: str, config: Config) -> list[Job]:
    """Its head: further back nobody starts before one of these."""
    limit = min(_MOST, max(_LEAST, 2 * config.max_nodes))
    return [
        Job(run.id, run.node_count, run.priority, float(run.seq))
        for run in queues.head_for_nodes(connection, target, limit)
    ]


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
