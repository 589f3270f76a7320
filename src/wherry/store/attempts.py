"""Attempts: one row per try of a run on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, or_, select, update

from wherry.core.errors import NotFoundError
from wherry.core.placement import Placement
from wherry.core.resources import Resources

from .database import batches
from .prepared import Prepared
from .runs import RunRow
from .tables import attempts, runs

AttemptRow = Row[Any]

_ADD = Prepared(insert(attempts))
_BY_ID = Prepared(select(attempts).where(attempts.c.id == bindparam("attempt_id")))
_OF_RUN = Prepared(
    select(attempts)
    .where(attempts.c.run_id == bindparam("of"))
    .order_by(attempts.c.number, attempts.c.rank)
)
_MEMBERS = (
    select(attempts)
    .where(attempts.c.run_id == bindparam("of"), attempts.c.number == bindparam("which"))
    .order_by(attempts.c.rank)
)
_ACTIVE = Prepared(
    select(attempts)
    .where(
        attempts.c.target == bindparam("at"),
        attempts.c.released_at.is_(None),
        attempts.c.ended_at.is_(None),
    )
    .order_by(attempts.c.created_at)
)
_LIVE = (
    select(attempts, runs.c.cancel_requested_at)
    .join(runs, runs.c.id == attempts.c.run_id)
    .where(
        attempts.c.target == bindparam("at"),
        attempts.c.released_at.is_(None),
        or_(attempts.c.ended_at.is_(None), attempts.c.handle.is_(None)),
    )
    .order_by(attempts.c.created_at)
)
_UNRELEASED = select(attempts).where(
    attempts.c.target == bindparam("at"), attempts.c.released_at.is_(None)
)
_TO_RELEASE = (
    select(attempts)
    .where(
        attempts.c.target == bindparam("at"),
        or_(
            attempts.c.ended_at < bindparam("before", type_=attempts.c.ended_at.type),
            attempts.c.ended_at > bindparam("now", type_=attempts.c.ended_at.type),
        ),
        attempts.c.released_at.is_(None),
    )
    .limit(bindparam("most"))
)
_UPDATE = Prepared(update(attempts).where(attempts.c.id == bindparam("attempt_id")))


def add(
    connection: Connection,
    run: RunRow,
    attempt_id: str,
    place: Placement,
    now: datetime,
    ready_by: datetime | None = None,
) -> int:
    """Which of the run's attempts it is; the run's own count is for ``runs.move`` to keep."""
    number = int(run.attempt_count) + 1
    fields = {
        "id": attempt_id,
        "run_id": run.id,
        "number": number,
        "target": run.target,
        "cpu": place.resources.cpu,
        "memory_bytes": place.resources.memory_bytes,
        "gpus": list(place.gpus),
        "created_at": now,
    }
    if place.node:
        fields.update(node_id=place.node, rank=place.rank, ready_by=ready_by)
    _ADD.change(connection, fields)
    return number


def place_of(attempt: AttemptRow) -> Placement:
    """What it was given when it was added."""
    gpus = tuple(attempt.gpus)
    owned = Resources(attempt.cpu, attempt.memory_bytes, len(gpus))
    return Placement(attempt.run_id, owned, gpus, attempt.node_id or "", attempt.rank)


def find(connection: Connection, attempt_id: str) -> AttemptRow | None:
    return _BY_ID.first(connection, {"attempt_id": attempt_id})


def get(connection: Connection, attempt_id: str) -> AttemptRow:
    row = find(connection, attempt_id)
    if row is None:
        raise NotFoundError(f"there is no attempt {attempt_id!r}")
    return row


def of_run(connection: Connection, run_id: str) -> list[AttemptRow]:
    return _OF_RUN.rows(connection, {"of": run_id})


def members(connection: Connection, run_id: str, number: int) -> list[AttemptRow]:
    """Those of one try, in the order of their ranks."""
    return list(connection.execute(_MEMBERS, {"of": run_id, "which": number}))


def active(connection: Connection, target: str) -> list[AttemptRow]:
    return _ACTIVE.rows(connection, {"at": target})


def live(connection: Connection, target: str) -> list[AttemptRow]:
    """The active ones, each with the time at which its run was asked to end.

    Also those that ended before their handle was noted: without it they cannot be cleared away.
    """
    return list(connection.execute(_LIVE, {"at": target}))


def unreleased(connection: Connection, target: str) -> list[AttemptRow]:
    """Those of which something may be on the target, whether they have ended or not."""
    return list(connection.execute(_UNRELEASED, {"at": target}))


def to_release(
    connection: Connection, target: str, before: datetime, now: datetime, limit: int
) -> list[AttemptRow]:
    """Those that ended before that time and whose traces are still on the target.

    Also those that ended in the future: the clock was put back.
    """
    where = {"at": target, "before": before, "now": now, "most": limit}
    return list(connection.execute(_TO_RELEASE, where))


def change(connection: Connection, attempt_id: str, changes: Mapping[str, Any]) -> None:
    _UPDATE.change(connection, {**changes, "attempt_id": attempt_id})


def forget(connection: Connection, attempt_id: str) -> None:
    """One that was never started."""
    connection.execute(delete(attempts).where(attempts.c.id == attempt_id))


def remove(connection: Connection, run_ids: Sequence[str]) -> None:
    """Those that the target has cleared away; the others follow when it has."""
    released = delete(attempts).where(attempts.c.released_at.is_not(None))
    for batch in batches(run_ids):
        connection.execute(released.where(attempts.c.run_id.in_(batch)))
