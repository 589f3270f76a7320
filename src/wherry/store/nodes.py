"""Nodes of clusters: a row before there is a machine, and until there is none any more.

A node is at work as long as an attempt on it has not ended; that is never stored twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from .database import batches
from .tables import attempts, nodes, runs

PREPARING, IDLE, RUNNING = "preparing", "idle", "running"
UNUSABLE, LEAVING, PREEMPTED = "unusable", "leaving", "preempted"
STATES = (PREPARING, RUNNING, IDLE, UNUSABLE, LEAVING, PREEMPTED)

_PRESENT = (
    select(nodes)
    .where(nodes.c.target == bindparam("at"), nodes.c.removed_at.is_(None))
    .order_by(nodes.c.created_at, nodes.c.id)
)
_BY_ID = select(nodes).where(nodes.c.id == bindparam("node_id"))
_UPDATE = update(nodes).where(nodes.c.id == bindparam("which"))
_BUSY = select(attempts.c.node_id, attempts.c.run_id, attempts.c.id).where(
    attempts.c.target == bindparam("at"),
    attempts.c.released_at.is_(None),
    attempts.c.ended_at.is_(None),
    attempts.c.node_id.is_not(None),
)
_HELD = (
    select(
        attempts.c.node_id,
        attempts.c.run_id,
        attempts.c.id,
        attempts.c.number,
        attempts.c.created_at,
        attempts.c.ready_by,
        attempts.c.stop_wanted_at,
        runs.c.seq,
        runs.c.priority,
        runs.c.limit_s,
        runs.c.started_at,
    )
    .outerjoin(runs, runs.c.id == attempts.c.run_id)
    .where(
        attempts.c.target == bindparam("at"),
        attempts.c.released_at.is_(None),
        attempts.c.ended_at.is_(None),
        attempts.c.node_id.is_not(None),
    )
)
_USED = (
    select(attempts.c.id)
    .where(
        attempts.c.target == bindparam("at"),
        attempts.c.released_at.is_(None),
        attempts.c.node_id == bindparam("node"),
    )
    .limit(1)
)


def add(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(insert(nodes), [dict(row) for row in rows])


def find(connection: Connection, node_id: str) -> Row[Any] | None:
    return connection.execute(_BY_ID, {"node_id": node_id}).first()


def some(connection: Connection, node_ids: Sequence[str]) -> dict[str, Row[Any]]:
    """Those of these that are known."""
    return {
        row.id: row
        for batch in batches(node_ids)
        for row in connection.execute(select(nodes).where(nodes.c.id.in_(batch)))
    }


def present(connection: Connection, target: str) -> list[Row[Any]]:
    """Those of a target that have not been removed, in the order in which they were made."""
    return list(connection.execute(_PRESENT, {"at": target}))


def busy(connection: Connection, target: str) -> dict[str, str]:
    """The run that each node works for."""
    return {row.node_id: row.run_id for row in connection.execute(_BUSY, {"at": target})}


def held(connection: Connection, target: str) -> list[Row[Any]]:
    """The attempts that have nodes, with what their runs' ends can be told from."""
    return list(connection.execute(_HELD, {"at": target}))


def has_traces(connection: Connection, target: str, node_id: str) -> bool:
    """Whether something of an attempt may still be there."""
    where = {"at": target, "node": node_id}
    return connection.execute(_USED, where).first() is not None


def change(connection: Connection, node_id: str, changes: Mapping[str, Any]) -> None:
    connection.execute(_UPDATE, {**changes, "which": node_id})


def move(connection: Connection, node_id: str, state: str, now: datetime, **changes: Any) -> None:
    """Give the node a state, with what comes along."""
    change(connection, node_id, {"state": state, "state_since": now, **changes})


def forget(connection: Connection, before: datetime) -> None:
    """Those that were removed before that time."""
    connection.execute(delete(nodes).where(nodes.c.removed_at < before))


def forget_target(connection: Connection, target: str) -> None:
    connection.execute(delete(nodes).where(nodes.c.target == target))
