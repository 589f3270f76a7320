"""Runs that wait for a target, in the order of their turns."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select, text

from wherry.core.lifecycle import Status
from wherry.core.sessions import SESSION

from .prepared import Prepared
from .runs import RunRow
from .tables import runs

_FIRST = (
    select(runs.c.id, runs.c.seq, runs.c.cpu, runs.c.memory_bytes, runs.c.gpu)
    .where(runs.c.target == bindparam("at"), runs.c.status == Status.QUEUED.value)
    .order_by(runs.c.seq)
    .limit(bindparam("most"))
)
# By a part of the index that only runs with a priority are in, and by the one of all.
_WITH_NODES = select(
    runs.c.id,
    runs.c.seq,
    runs.c.node_count,
    runs.c.priority,
    runs.c.limit_s,
    runs.c.attempt_count,
).where(
    runs.c.target == bindparam("at"),
    runs.c.status == Status.QUEUED.value,
    runs.c.node_count <= bindparam("reach"),
)
_PREFERRED = (
    _WITH_NODES.where(text("priority <> 0"))
    .order_by(runs.c.priority.desc(), runs.c.seq)
    .limit(bindparam("most"))
)
_IN_ORDER = _WITH_NODES.where(runs.c.priority == 0).order_by(runs.c.seq).limit(bindparam("most"))
_PLACES = select(runs.c.seq).where(
    runs.c.target == bindparam("at"), runs.c.status == Status.QUEUED.value
)
_COUNT = select(func.count()).select_from(
    _PLACES.where(runs.c.seq < bindparam("before")).limit(bindparam("most")).subquery()
)
_BETWEEN = (
    _PLACES.where(runs.c.seq.between(bindparam("first"), bindparam("last")))
    .order_by(runs.c.seq)
    .limit(bindparam("most"))
)
_SESSION = (
    select(runs.c.id)
    .where(
        runs.c.target == bindparam("at"),
        runs.c.status == Status.QUEUED.value,
        runs.c.type == SESSION,
    )
    .limit(1)
)
_HEAD = Prepared(_FIRST)
_HEAD_LOCKED = Prepared(_FIRST.with_for_update(key_share=True, skip_locked=True))
_TO_CANCEL = select(runs).where(
    runs.c.target == bindparam("at"),
    runs.c.status == Status.QUEUED.value,
    runs.c.cancel_requested_at.is_not(None),
)


def session(connection: Connection, target: str) -> str | None:
    """The session of a compute instance, if it waits."""
    found: str | None = connection.execute(_SESSION, {"at": target}).scalar()
    return found


def head(connection: Connection, target: str, limit: int, *, lock: bool = False) -> list[RunRow]:
    """The head of a target's queue, oldest first, with what each asks for."""
    query = _HEAD_LOCKED if lock else _HEAD
    return query.rows(connection, {"at": target, "most": limit})


def head_for_nodes(connection: Connection, target: str, reach: int, limit: int) -> list[RunRow]:
    """The head of a cluster's queue: by priority, then by age. Without those that ask for more
    nodes than are in ``reach``.
    """
    where = {"at": target, "reach": reach, "most": limit}
    found = [*connection.execute(_PREFERRED, where), *connection.execute(_IN_ORDER, where)]
    return sorted(found, key=lambda run: (-run.priority, run.seq))[:limit]


def to_cancel(connection: Connection, target: str) -> list[RunRow]:
    return list(connection.execute(_TO_CANCEL, {"at": target}))


def count_before(connection: Connection, target: str, before: int, limit: int) -> int:
    """How many wait for a target before a place in its queue, counted up to ``limit``."""
    where = {"at": target, "before": before, "most": limit}
    return int(connection.execute(_COUNT, where).scalar_one())


def between(connection: Connection, target: str, first: int, last: int, limit: int) -> list[int]:
    """The places of a target's queue from one to another in order, up to ``limit`` of them."""
    where = {"at": target, "first": first, "last": last, "most": limit}
    return list(connection.execute(_BETWEEN, where).scalars())
