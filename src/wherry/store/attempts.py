"""Attempts: one row per try of a run on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from wherry.core.errors import NotFoundError
from wherry.core.placement import Placement

from .database import batches
from .runs import RunRow
from .tables import attempts, runs

AttemptRow = Row[Any]


def add(
    connection: Connection, run: RunRow, attempt_id: str, place: Placement, now: datetime
) -> None:
    number = run.attempt_count + 1
    connection.execute(
        insert(attempts).values(
            id=attempt_id,
            run_id=run.id,
            number=number,
            target=run.target,
            cpu=place.resources.cpu,
            memory_bytes=place.resources.memory_bytes,
            gpus=list(place.gpus),
            created_at=now,
        )
    )
    connection.execute(update(runs).where(runs.c.seq == run.seq).values(attempt_count=number))


def find(connection: Connection, attempt_id: str) -> AttemptRow | None:
    return connection.execute(select(attempts).where(attempts.c.id == attempt_id)).first()


def get(connection: Connection, attempt_id: str) -> AttemptRow:
    row = find(connection, attempt_id)
    if row is None:
        raise NotFoundError(f"there is no attempt {attempt_id!r}")
    return row


def of_run(connection: Connection, run_id: str) -> list[AttemptRow]:
    query = select(attempts).where(attempts.c.run_id == run_id).order_by(attempts.c.number)
    return list(connection.execute(query))


def active(connection: Connection, target: str) -> list[AttemptRow]:
    query = select(attempts).where(
        attempts.c.target == target,
        attempts.c.released_at.is_(None),
        attempts.c.ended_at.is_(None),
    )
    return list(connection.execute(query.order_by(attempts.c.created_at)))


def to_release(connection: Connection, target: str, limit: int) -> list[AttemptRow]:
    query = select(attempts).where(
        attempts.c.target == target,
        attempts.c.ended_at.is_not(None),
        attempts.c.released_at.is_(None),
    )
    return list(connection.execute(query.limit(limit)))


def change(connection: Connection, attempt_id: str, changes: Mapping[str, Any]) -> None:
    connection.execute(update(attempts).where(attempts.c.id == attempt_id).values(**changes))


def remove(connection: Connection, run_ids: Sequence[str]) -> None:
    """Those that the target has cleared away; the others follow when it has."""
    released = delete(attempts).where(attempts.c.released_at.is_not(None))
    for batch in batches(run_ids):
        connection.execute(released.where(attempts.c.run_id.in_(batch)))
