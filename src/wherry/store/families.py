"""Runs and those below them."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, bindparam, select

from .prepared import Prepared
from .runs import JOINED, RunRow, locked
from .tables import runs

_CHILDREN = Prepared(
    JOINED.where(runs.c.parent_id == bindparam("run_id")).order_by(runs.c.seq.desc())
)


def children(
    connection: Connection, run_id: str, *, recursive: bool, lock: bool = False
) -> list[RunRow]:
    if not recursive and not lock:
        return _CHILDREN.rows(connection, {"run_id": run_id})
    wanted = _below(run_id) if recursive else runs.c.parent_id == run_id
    query = JOINED.where(wanted).order_by(runs.c.seq.desc())
    return list(connection.execute(locked(query) if lock else query))


def _below(run_id: str) -> ColumnElement[bool]:
    below = (
        select(runs.c.id, runs.c.parent_id)
        .where(runs.c.parent_id == run_id)
        .cte("below", recursive=True)
    )
    below = below.union_all(
        select(runs.c.id, runs.c.parent_id).join(below, runs.c.parent_id == below.c.id)
    )
    return runs.c.id.in_(select(below.c.id))


def descends_from(connection: Connection, run_id: str, ancestor_id: str) -> bool:
    """Whether the run is the ancestor itself or below it."""
    current: str | None = run_id
    for _ in range(100):
        if current is None or current == ancestor_id:
            break
        current = connection.execute(select(runs.c.parent_id).where(runs.c.id == current)).scalar()
    return current == ancestor_id
