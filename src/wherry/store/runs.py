"""Runs and their history. ``move`` is the only writer of a status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, select, update

from wherry.core import records
from wherry.core.errors import NotFoundError, WherryError
from wherry.core.lifecycle import TRANSITIONS, Reason, Status

from . import run_labels, tallies
from .database import batches
from .prepared import Prepared
from .run_labels import PROPERTY, TAG
from .run_records import shown_status
from .tables import events, experiments, runs, workspaces

RunRow = Row[Any]


class StaleError(WherryError):
    """The run changed meanwhile."""

    http_status = 503  # whoever sends it again finds the run as it is now


class Change(NamedTuple):
    """What a move brings with it."""

    reason: Reason | None = None
    message: str = ""
    error: Mapping[str, Any] | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempt_count: int | None = None


NO_CHANGE = Change()


def locked(query: Select[Any]) -> Select[Any]:
    """PostgreSQL's row lock; on SQLite, where there is one writer at a time, nothing."""
    return query.with_for_update(key_share=True, of=runs)


def _with_names(*wanted: Any) -> Select[Any]:
    """Of runs, with the names of their experiment and workspace."""
    return (
        select(
            *wanted, experiments.c.name.label("experiment"), workspaces.c.name.label("workspace")
        )
        # Outer joins, though there always is one: SQLite's planner then begins with the runs.
        .outerjoin(experiments, experiments.c.id == runs.c.experiment_id)
        .outerjoin(workspaces, workspaces.c.id == runs.c.workspace_id)
    )


# Statements of every step are built once: building one takes ten times as long as running it.
JOINED = _with_names(runs)
_LISTED = _with_names(*[column for column in runs.c if column is not runs.c.spec]).where(
    runs.c.seq.in_(bindparam("seqs", expanding=True))
)
_SPECS = select(runs.c.seq, runs.c.spec).where(runs.c.seq.in_(bindparam("seqs", expanding=True)))
_WITH_ID = JOINED.where(runs.c.id == bindparam("run_id"))
_BY_ID = Prepared(_WITH_ID)
_BY_ID_LOCKED = Prepared(locked(_WITH_ID))
_STATUS = Prepared(
    select(runs.c.status, runs.c.cancel_requested_at).where(runs.c.id == bindparam("run_id"))
)
_BY_KEY = Prepared(
    JOINED.where(
        runs.c.workspace_id == bindparam("workspace"), runs.c.submission_key == bindparam("key")
    )
)
_ADD = Prepared(insert(runs).returning(runs.c.seq))
_ADD_IN_ORDER = insert(runs).returning(runs.c.seq, sort_by_parameter_order=True)
_THE_RUN = update(runs).where(runs.c.seq == bindparam("run_seq"))
_UPDATE = Prepared(_THE_RUN)
_MOVE = Prepared(_THE_RUN.where(runs.c.version == bindparam("seen")))
_OPEN = select(runs.c.status, func.count()).where(runs.c.ended_at.is_(None)).group_by(runs.c.status)
_ADD_EVENT = Prepared(insert(events))


def add(
    connection: Connection,
    fields: Mapping[str, Any],
    tags: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    """A new run with its first event."""
    (seq,) = _ADD.one(connection, fields)
    if Status(fields["status"]).terminal:
        tallies.note(connection, fields["status"])
    run_labels.add_many(connection, [seq], [{TAG: tags, PROPERTY: properties}])
    _record(
        connection, fields["id"], fields["submitted_at"], None, Status(fields["status"]), Change()
    )


def add_many(
    connection: Connection,
    rows: Sequence[Mapping[str, Any]],
    labelled: Sequence[Mapping[str, Mapping[str, str]]],
) -> None:
    """New runs, each with its labels by kind and its first event."""
    seqs = connection.execute(_ADD_IN_ORDER, [dict(row) for row in rows]).scalars().all()
    run_labels.add_many(connection, seqs, labelled)
    first = [{**_first_event(row), "reason": None, "message": ""} for row in rows]
    _ADD_EVENT.change_many(connection, first)


def _first_event(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": row["id"],
        "at": row["submitted_at"],
        "from_status": None,
        "to_status": row["status"],
    }


def with_keys(connection: Connection, workspace_id: str, keys: Iterable[str]) -> dict[str, str]:
    """The ids of the runs that were submitted under these keys."""
    mine = select(runs.c.submission_key, runs.c.id).where(runs.c.workspace_id == workspace_id)
    found: dict[str, str] = {}
    for batch in batches(keys):
        rows = connection.execute(mine.where(runs.c.submission_key.in_(batch)))
        found.update({key: run_id for key, run_id in rows})
    return found


def find(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow | None:
    query = _BY_ID_LOCKED if lock else _BY_ID
    return query.first(connection, {"run_id": run_id})


def get(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow:
    """With ``lock``, other writers of the run wait until this transaction is done."""
    row = find(connection, run_id, lock=lock)
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return row


def status(connection: Connection, run_id: str) -> str:
    """As it is shown."""
    row = _STATUS.first(connection, {"run_id": run_id})
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return shown_status(row)


def by_key(connection: Connection, workspace_id: str, key: str) -> RunRow | None:
    return _BY_KEY.first(connection, {"workspace": workspace_id, "key": key})


def move(
    connection: Connection, row: RunRow, status: Status, now: datetime, change: Change = NO_CHANGE
) -> None:
    """Give the run its new status, if nothing else has moved it since ``row`` was read.

    An end is for ever, but of a run that its client drives, and takes up again.
    """
    before = Status(row.status)
    reopened = before.terminal and status is Status.RUNNING and row.target is None
    if status not in TRANSITIONS[before] and not reopened:
        raise WherryError(f"run {row.id} cannot go from {before.value} to {status.value}")
    values: dict[str, Any] = {
        "status": status.value,
        "reason": change.reason.value if change.reason else None,
        "message": change.message,
        "version": row.version + 1,
    }
    if change.attempt_count is not None:
        values["attempt_count"] = change.attempt_count
    if change.started_at or (row.started_at is None and status is Status.RUNNING):
        values["started_at"] = change.started_at or now
    if status.terminal:
        error = dict(change.error) if change.error else None
        values.update(ended_at=change.ended_at or now, error=error)
    if reopened:
        values.update(ended_at=None, error=None)
        tallies.note(connection, before.value, -1)
    moved = _MOVE.change(connection, {**values, "run_seq": row.seq, "seen": row.version})
    if moved != 1:
        raise StaleError(f"run {row.id} changed meanwhile")
    _record(connection, row.id, now, before, status, change)
    if status.terminal:
        tallies.note(connection, status.value)
        if row.seq % tallies.FOLD_EVERY == 0:
            tallies.fold(connection)


def update_fields(connection: Connection, row: RunRow, changes: Mapping[str, Any]) -> None:
    """Anything but the status."""
    if "status" in changes:
        raise WherryError("a status is changed by move() alone")
    _UPDATE.change(connection, {**changes, "run_seq": row.seq})


def request_cancel(connection: Connection, row: RunRow, now: datetime) -> None:
    connection.execute(
        update(runs)
        .where(runs.c.seq == row.seq, runs.c.cancel_requested_at.is_(None))
        .values(cancel_requested_at=now)
    )


def silent_since(connection: Connection, before: datetime) -> list[RunRow]:
    """Runs driven by a client that has not been heard of since ``before``.

    Not those below another run: they live and end with it.
    """
    query = select(runs).where(
        runs.c.ended_at.is_(None),
        runs.c.status.in_([Status.RUNNING.value, Status.NOT_RESPONDING.value]),
        runs.c.target.is_(None),
        runs.c.heartbeat_at < before,
    )
    # Not asked for: SQLite would look at all runs without a parent.
    return [row for row in connection.execute(query) if row.parent_id is None]


def history(connection: Connection, run_id: str) -> list[records.Event]:
    rows = connection.execute(select(events).where(events.c.run_id == run_id).order_by(events.c.id))
    return [
        records.Event(row.at, row.from_status, row.to_status, row.reason, row.message)
        for row in rows
    ]


def remove(connection: Connection, rows: Sequence[RunRow]) -> None:
    for row in rows:
        if Status(row.status).terminal:
            tallies.note(connection, row.status, -1)
        run_labels.remove(connection, row.seq)
        connection.execute(delete(events).where(events.c.run_id == row.id))
        connection.execute(delete(runs).where(runs.c.seq == row.seq))


def counts(connection: Connection) -> dict[str, int]:
    """How many runs are in each status. Those that have ended are not counted but known."""
    live = {str(status): int(count) for status, count in connection.execute(_OPEN)}
    return {**live, **tallies.every(connection)}


def listed(connection: Connection, seqs: Sequence[int]) -> list[RunRow]:
    """These runs in this order, without their specifications, which are long."""
    by_seq = {row.seq: row for row in connection.execute(_LISTED, {"seqs": seqs})}
    return [by_seq[seq] for seq in seqs]


def arguments(connection: Connection, seqs: Sequence[int]) -> dict[int, list[Any]]:
    """What each run's script was called with."""
    found = connection.execute(_SPECS, {"seqs": seqs})
    return {row.seq: list((row.spec or {}).get("arguments") or []) for row in found}


def listed_in_parts(connection: Connection, seqs: Sequence[int]) -> list[RunRow]:
    """The same of more than fit into one statement."""
    return [row for batch in batches(seqs) for row in listed(connection, batch)]


def _record(
    connection: Connection,
    run_id: str,
    now: datetime,
    before: Status | None,
    after: Status,
    change: Change,
) -> None:
    fields = {
        "run_id": run_id,
        "at": now,
        "from_status": before.value if before else None,
        "to_status": after.value,
        "reason": change.reason.value if change.reason else None,
        "message": change.message,
    }
    _ADD_EVENT.change(connection, fields)
