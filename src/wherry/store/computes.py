"""Compute targets that workspaces have: clusters and machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from wherry.core.lifecycle import TERMINAL
from wherry.core.records import Workspace
from wherry.core.sessions import SESSION

from .tables import attempts, computes, runs

_BY_TARGET = select(computes).where(computes.c.target == bindparam("at"))
_BY_TARGET_LOCKED = _BY_TARGET.with_for_update(key_share=True)
_BY_TARGET_SHARED = _BY_TARGET.with_for_update(read=True)
_BY_ID = select(computes).where(computes.c.id == bindparam("compute_id"))
_ENDED = [status.value for status in TERMINAL]


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(computes).values(**row))


def find(
    connection: Connection, target: str, *, lock: bool = False, share: bool = False
) -> Row[Any] | None:
    """By its key. With ``lock``, others who lock it wait until this transaction is done; those
    who ``share`` it wait for them alone.
    """
    query = _BY_TARGET_LOCKED if lock else _BY_TARGET_SHARED if share else _BY_TARGET
    return connection.execute(query, {"at": target}).first()


def by_id(connection: Connection, compute_id: str) -> Row[Any] | None:
    return connection.execute(_BY_ID, {"compute_id": compute_id}).first()


def of_workspace(connection: Connection, workspace: Workspace) -> list[Row[Any]]:
    query = select(computes).where(computes.c.workspace_id == workspace.id)
    return list(connection.execute(query.order_by(computes.c.created_at, computes.c.name)))


def every(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(select(computes).order_by(computes.c.created_at)))


def change(connection: Connection, target: str, changes: Mapping[str, Any]) -> None:
    connection.execute(update(computes).where(computes.c.target == target).values(**changes))


def remove(connection: Connection, target: str) -> None:
    connection.execute(delete(computes).where(computes.c.target == target))


def active_runs(connection: Connection, target: str, limit: int) -> list[Row[Any]]:
    """Runs of the target that have not ended, oldest first."""
    told = (runs.c.id, runs.c.seq, runs.c.type, runs.c.status, runs.c.cancel_requested_at)
    query = select(*told).where(
        runs.c.target == target, runs.c.ended_at.is_(None), runs.c.status.not_in(_ENDED)
    )
    return list(connection.execute(query.order_by(runs.c.seq).limit(limit)))


def sessions(connection: Connection, target: str) -> list[Row[Any]]:
    """Of a compute instance, the latest first."""
    query = select(runs.c.id, runs.c.status).where(runs.c.target == target, runs.c.type == SESSION)
    return list(connection.execute(query.order_by(runs.c.seq.desc())))


def has_traces(connection: Connection, target: str) -> bool:
    """Whether an attempt may still have processes or files there."""
    query = select(attempts.c.id).where(
        attempts.c.target == target, attempts.c.released_at.is_(None)
    )
    return connection.execute(query.limit(1)).first() is not None
