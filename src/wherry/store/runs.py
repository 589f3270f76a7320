"""Runs, their labels and their history. ``move`` is the only writer of a status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from wherry.core import records
from wherry.core.errors import ConflictError, NotFoundError, WherryError
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, TRANSITIONS, Reason, Status
from wherry.core.targets import name_of

from . import tallies
from .database import batches
from .tables import (
    bytewise,
    ending_of,
    equals,
    events,
    experiments,
    head_of,
    labels,
    runs,
    workspaces,
)

TAG, PROPERTY = "tag", "property"
_LAST_CHARACTER = "\U0010ffff"

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


def _locked(query: Select[Any]) -> Select[Any]:
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
_JOINED = _with_names(runs)
_LISTED = _with_names(*[column for column in runs.c if column is not runs.c.spec]).where(
    runs.c.seq.in_(bindparam("seqs", expanding=True))
)
_BY_ID = _JOINED.where(runs.c.id == bindparam("run_id"))
_BY_ID_LOCKED = _locked(_BY_ID)
_STATUS = select(runs.c.status, runs.c.cancel_requested_at).where(runs.c.id == bindparam("run_id"))
_BY_KEY = _JOINED.where(
    runs.c.workspace_id == bindparam("workspace"), runs.c.submission_key == bindparam("key")
)
_CHILDREN = _JOINED.where(runs.c.parent_id == bindparam("run_id")).order_by(runs.c.seq.desc())
_ADD = insert(runs).returning(runs.c.seq)
_ADD_IN_ORDER = insert(runs).returning(runs.c.seq, sort_by_parameter_order=True)
_UPDATE = update(runs).where(runs.c.seq == bindparam("run_seq"))
_MOVE = _UPDATE.where(runs.c.version == bindparam("seen"))
_QUEUED = (
    select(runs.c.id, runs.c.cpu, runs.c.memory_bytes, runs.c.gpu)
    .where(runs.c.target == bindparam("at"), runs.c.status == Status.QUEUED.value)
    .order_by(runs.c.seq)
    .limit(bindparam("most"))
)
# By a part of the index that only runs with a priority are in, and by the one of all.
_WITH_NODES = select(
    runs.c.id, runs.c.seq, runs.c.node_count, runs.c.priority, runs.c.submitted_at
).where(runs.c.target == bindparam("at"), runs.c.status == Status.QUEUED.value)
_PREFERRED = (
    _WITH_NODES.where(text("priority <> 0"))
    .order_by(runs.c.priority.desc(), runs.c.seq)
    .limit(bindparam("most"))
)
_IN_ORDER = _WITH_NODES.where(runs.c.priority == 0).order_by(runs.c.seq).limit(bindparam("most"))
_PLACES = select(runs.c.seq).where(
    runs.c.target == bindparam("at"), runs.c.status == Status.QUEUED.value
)
_COUNT_QUEUED = select(func.count()).select_from(
    _PLACES.where(runs.c.seq < bindparam("before")).limit(bindparam("most")).subquery()
)
_QUEUED_BETWEEN = (
    _PLACES.where(runs.c.seq.between(bindparam("first"), bindparam("last")))
    .order_by(runs.c.seq)
    .limit(bindparam("most"))
)
_QUEUED_LOCKED = _QUEUED.with_for_update(key_share=True, skip_locked=True)
_QUEUED_TO_CANCEL = select(runs).where(
    runs.c.target == bindparam("at"),
    runs.c.status == Status.QUEUED.value,
    runs.c.cancel_requested_at.is_not(None),
)
_OPEN = select(runs.c.status, func.count()).where(runs.c.ended_at.is_(None)).group_by(runs.c.status)
_LABELS = select(labels).where(labels.c.run_seq.in_(bindparam("seqs", expanding=True)))
_ADD_LABELS = insert(labels)
_ADD_EVENT = insert(events)


def add(
    connection: Connection,
    fields: Mapping[str, Any],
    tags: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    """A new run with its first event."""
    seq = connection.execute(_ADD, dict(fields)).scalar_one()
    if Status(fields["status"]).terminal:
        tallies.note(connection, fields["status"])
    _insert_labels(connection, seq, TAG, tags)
    _insert_labels(connection, seq, PROPERTY, properties)
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
    found = [
        {"run_seq": seq, "kind": kind, "key": key, "value": value}
        for seq, kinds in zip(seqs, labelled, strict=True)
        for kind, values in kinds.items()
        for key, value in values.items()
    ]
    if found:
        connection.execute(_ADD_LABELS, found)
    connection.execute(
        _ADD_EVENT, [{**_first_event(row), "reason": None, "message": ""} for row in rows]
    )


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
    return connection.execute(query, {"run_id": run_id}).first()


def get(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow:
    """With ``lock``, other writers of the run wait until this transaction is done."""
    row = find(connection, run_id, lock=lock)
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return row


def status(connection: Connection, run_id: str) -> str:
    """As it is shown."""
    row = connection.execute(_STATUS, {"run_id": run_id}).first()
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return shown_status(row)


def by_key(connection: Connection, workspace_id: str, key: str) -> RunRow | None:
    return connection.execute(_BY_KEY, {"workspace": workspace_id, "key": key}).first()


def starting_with(
    connection: Connection, workspace_id: str, prefix: str, limit: int
) -> list[RunRow]:
    """Runs whose id begins with ``prefix``, or whose random ending or display name matches it.

    Each way is a question of its own, which an index answers.
    """
    mine = select(runs.c.seq).where(runs.c.workspace_id == workspace_id)
    head, first = head_of(bytewise(runs.c.id)), prefix[:100]
    by_id = mine.where(
        head >= first,
        head < first + _LAST_CHARACTER,
        runs.c.id.startswith(prefix, autoescape=True),
    ).order_by(head)
    found = _seqs(connection, by_id.limit(limit))
    if not found:
        by_ending = mine.where(
            ending_of(runs.c.id) == prefix.rpartition("_")[2],
            runs.c.id.endswith("_" + prefix, autoescape=True),
        )
        by_name = mine.where(*equals(runs.c.display_name, prefix))
        found = _seqs(connection, by_ending.limit(limit))
        found |= _seqs(connection, by_name.order_by(runs.c.seq.desc()).limit(limit))
    rows = _JOINED.where(runs.c.seq.in_(found)).order_by(runs.c.seq.desc()).limit(limit)
    return list(connection.execute(rows)) if found else []


def _seqs(connection: Connection, query: Select[Any]) -> set[int]:
    return set(connection.execute(query).scalars())


def newest_names(connection: Connection, workspace_id: str, limit: int) -> list[str]:
    """What the newest runs may be called by."""
    mine = select(runs.c.id, runs.c.display_name).where(runs.c.workspace_id == workspace_id)
    rows = list(connection.execute(mine.order_by(runs.c.seq.desc()).limit(limit)))
    return [row.display_name for row in rows if row.display_name] + [row.id for row in rows]


def move(
    connection: Connection, row: RunRow, status: Status, now: datetime, change: Change = NO_CHANGE
) -> None:
    """Give the run its new status, if nothing else has moved it since ``row`` was read."""
    before = Status(row.status)
    if status not in TRANSITIONS[before]:
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
    moved = connection.execute(_MOVE, {**values, "run_seq": row.seq, "seen": row.version})
    if moved.rowcount != 1:
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
    connection.execute(_UPDATE, {**changes, "run_seq": row.seq})


def request_cancel(connection: Connection, row: RunRow, now: datetime) -> None:
    connection.execute(
        update(runs)
        .where(runs.c.seq == row.seq, runs.c.cancel_requested_at.is_(None))
        .values(cancel_requested_at=now)
    )


def queued(connection: Connection, target: str, limit: int, *, lock: bool = False) -> list[RunRow]:
    """The head of a target's queue, oldest first, with what each asks for."""
    query = _QUEUED_LOCKED if lock else _QUEUED
    return list(connection.execute(query, {"at": target, "most": limit}))


def queued_for_nodes(connection: Connection, target: str, limit: int) -> list[RunRow]:
    """The head of a cluster's queue: by priority, then by age."""
    where = {"at": target, "most": limit}
    found = [*connection.execute(_PREFERRED, where), *connection.execute(_IN_ORDER, where)]
    return sorted(found, key=lambda run: (-run.priority, run.seq))[:limit]


def queued_to_cancel(connection: Connection, target: str) -> list[RunRow]:
    return list(connection.execute(_QUEUED_TO_CANCEL, {"at": target}))


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


def count_queued(connection: Connection, target: str, before: int, limit: int) -> int:
    """How many wait for a target before a place in its queue, counted up to ``limit``."""
    where = {"at": target, "before": before, "most": limit}
    return int(connection.execute(_COUNT_QUEUED, where).scalar_one())


def queued_between(
    connection: Connection, target: str, first: int, last: int, limit: int
) -> list[int]:
    """The places of a target's queue from one to another in order, up to ``limit`` of them."""
    where = {"at": target, "first": first, "last": last, "most": limit}
    return list(connection.execute(_QUEUED_BETWEEN, where).scalars())


def set_labels(
    connection: Connection,
    row: RunRow,
    kind: str,
    changes: Mapping[str, str],
    removed: Iterable[str] = (),
) -> None:
    """Tags may change; a property, once set, stays."""
    keys = [*changes, *removed]
    if not keys:
        return
    present = _labels(connection, [row.seq]).get((row.seq, kind), {})
    gone = [key for key in keys if key in present]
    if kind == PROPERTY:
        for key, value in changes.items():
            if key in present and present[key] != value:
                raise ConflictError(
                    f"property {key!r} of run {row.id} is {present[key]!r} already",
                    hint="properties cannot be changed; use a tag",
                )
        changes = {key: value for key, value in changes.items() if key not in present}
    else:
        mine = delete(labels).where(labels.c.run_seq == row.seq, labels.c.kind == kind)
        for batch in batches(gone):
            connection.execute(mine.where(labels.c.key.in_(batch)))
    _insert_labels(connection, row.seq, kind, changes)


def children(
    connection: Connection, run_id: str, *, recursive: bool, lock: bool = False
) -> list[RunRow]:
    if not recursive and not lock:
        return list(connection.execute(_CHILDREN, {"run_id": run_id}))
    wanted = _below(run_id) if recursive else runs.c.parent_id == run_id
    query = _JOINED.where(wanted).order_by(runs.c.seq.desc())
    return list(connection.execute(_locked(query) if lock else query))


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
        connection.execute(delete(labels).where(labels.c.run_seq == row.seq))
        connection.execute(delete(events).where(events.c.run_id == row.id))
        connection.execute(delete(runs).where(runs.c.seq == row.seq))


def counts(connection: Connection) -> dict[str, int]:
    """How many runs are in each status. Those that have ended are not counted but known."""
    live = {str(status): int(count) for status, count in connection.execute(_OPEN)}
    return {**live, **tallies.every(connection)}


def to_records(
    connection: Connection,
    rows: Sequence[RunRow],
    *,
    spec: bool = False,
    messages: Sequence[str] | None = None,
) -> list[records.Run]:
    """``messages`` are told instead of those that are stored."""
    found = _labels(connection, [row.seq for row in rows])
    told = messages or [row.message for row in rows]
    return [
        _to_record(
            row,
            message,
            found.get((row.seq, TAG), {}),
            found.get((row.seq, PROPERTY), {}),
            spec,
        )
        for row, message in zip(rows, told, strict=True)
    ]


def new_record(
    fields: Mapping[str, Any],
    workspace: str,
    experiment: str,
    tags: Mapping[str, str],
    properties: Mapping[str, str],
) -> records.Run:
    """The run that was just added, without reading it again."""
    blank = dict.fromkeys(column.name for column in runs.columns)
    row = SimpleNamespace(**{**blank, "message": "", "attempt_count": 0, **fields})
    row.workspace, row.experiment = workspace, experiment
    named = dict(sorted(tags.items())), dict(sorted(properties.items()))
    return _to_record(row, row.message, *named, spec=True)


def shown_status(row: Any) -> str:
    if row.cancel_requested_at is not None and Status(row.status) not in TERMINAL:
        return CANCEL_REQUESTED
    return str(row.status)


def listed(connection: Connection, seqs: Sequence[int]) -> list[RunRow]:
    """These runs in this order, without their specifications, which are long."""
    by_seq = {row.seq: row for row in connection.execute(_LISTED, {"seqs": seqs})}
    return [by_seq[seq] for seq in seqs]


def _to_record(
    row: Any, message: str, tags: dict[str, str], properties: dict[str, str], spec: bool
) -> records.Run:
    return records.Run(
        id=row.id,
        number=row.number,
        workspace=row.workspace,
        experiment=row.experiment,
        parent_id=row.parent_id,
        root_id=row.root_id,
        type=row.type,
        display_name=row.display_name,
        description=row.description,
        status=shown_status(row),
        reason=row.reason,
        message=message,
        error=row.error,
        target=name_of(row.target) if row.target else None,
        snapshot_id=row.snapshot_id,
        attempt=row.attempt_count,
        submitted_by=row.submitted_by,
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        archived_at=row.archived_at,
        tags=tags,
        properties=properties,
        spec=row.spec if spec else None,
    )


def _labels(connection: Connection, seqs: Sequence[int]) -> dict[tuple[int, str], dict[str, str]]:
    """Of each run and kind, by name. Sorted here: asked for it, SQLite reads a whole index."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for batch in batches(seqs):
        rows = connection.execute(_LABELS, {"seqs": batch})
        for row in sorted(rows, key=lambda row: row.key):
            found.setdefault((row.run_seq, row.kind), {})[row.key] = row.value
    return found


def _insert_labels(connection: Connection, seq: int, kind: str, values: Mapping[str, str]) -> None:
    if values:
        connection.execute(
            _ADD_LABELS,
            [{"run_seq": seq, "kind": kind, "key": k, "value": v} for k, v in values.items()],
        )


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
    connection.execute(_ADD_EVENT, fields)
