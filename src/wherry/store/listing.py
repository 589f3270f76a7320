"""Pages of runs: filters, order and cursors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, and_, exists, func, or_, type_coerce

from wherry.core.errors import UserErrorException
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, Status

from . import runs as run_rows
from .runs import RunRow
from .tables import experiments, labels, runs

ORDERS = {
    "submitted_at": runs.c.seq,
    "number": runs.c.number,
    "started_at": func.coalesce(type_coerce(runs.c.started_at, BigInteger), 0),
    "ended_at": func.coalesce(type_coerce(runs.c.ended_at, BigInteger), 0),
    "status": runs.c.status,
    "display_name": runs.c.display_name,
}


@dataclass(frozen=True)
class Filter:
    """Which runs, in which order. Empty fields do not filter."""

    experiment: str | None = None
    statuses: Sequence[str] = ()
    type: str | None = None
    target: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    parent_id: str | None = None
    include_children: bool = False
    archived: str = "active"
    order_by: str = "-submitted_at"


def page(
    connection: Connection, workspace_id: str, wanted: Filter, limit: int, cursor: str | None
) -> tuple[list[RunRow], str | None]:
    """The rows, and the cursor of the next page if there is one."""
    query = run_rows.joined().where(runs.c.workspace_id == workspace_id)
    query = _filtered(query, wanted)
    name, descending = wanted.order_by.lstrip("-"), wanted.order_by.startswith("-")
    if name not in ORDERS:
        raise UserErrorException(
            f"runs cannot be ordered by {name!r}", hint=f"choose one of {', '.join(ORDERS)}"
        )
    key = ORDERS[name].label("_key")
    query = query.add_columns(key)
    if cursor:
        query = query.where(_after(ORDERS[name], _decode(cursor, wanted.order_by), descending))
    order = (key.desc(), runs.c.seq.desc()) if descending else (key, runs.c.seq)
    rows = list(connection.execute(query.order_by(*order).limit(limit + 1)))
    more = len(rows) > limit
    rows = rows[:limit]
    following = _encode(wanted.order_by, rows[-1]) if more else None
    return rows, following


def _filtered(query: Select[Any], wanted: Filter) -> Select[Any]:
    if wanted.experiment:
        query = query.where(experiments.c.name == wanted.experiment)
    if wanted.statuses:
        query = query.where(or_(*[_has_status(status) for status in wanted.statuses]))
    if wanted.type:
        query = query.where(runs.c.type == wanted.type)
    if wanted.target:
        query = query.where(runs.c.target == wanted.target)
    if wanted.parent_id:
        query = query.where(runs.c.parent_id == wanted.parent_id)
    elif not wanted.include_children:
        query = query.where(runs.c.parent_id.is_(None))
    for kind, values in ((run_rows.TAG, wanted.tags), (run_rows.PROPERTY, wanted.properties)):
        for key, value in values.items():
            query = query.where(_has_label(kind, key, value))
    if wanted.archived == "active":
        return query.where(runs.c.archived_at.is_(None))
    if wanted.archived == "archived":
        return query.where(runs.c.archived_at.is_not(None))
    return query


def _has_status(status: str) -> Any:
    live = runs.c.status.not_in([end.value for end in TERMINAL])
    if status == CANCEL_REQUESTED:
        return and_(live, runs.c.cancel_requested_at.is_not(None))
    try:
        known = Status(status)
    except ValueError:
        raise UserErrorException(
            f"{status!r} is not a status",
            hint=f"statuses are {', '.join([s.value for s in Status] + [CANCEL_REQUESTED])}",
        ) from None
    if known.terminal:
        return runs.c.status == known.value
    return and_(runs.c.status == known.value, runs.c.cancel_requested_at.is_(None))


def _has_label(kind: str, key: str, value: str | None) -> Any:
    matches = [labels.c.run_seq == runs.c.seq, labels.c.kind == kind, labels.c.key == key]
    if value is not None:
        matches.append(labels.c.value == value)
    return exists().where(*matches)


def _after(column: Any, position: tuple[Any, int], descending: bool) -> Any:
    value, seq = position
    beyond = column < value if descending else column > value
    later = runs.c.seq < seq if descending else runs.c.seq > seq
    return or_(beyond, and_(column == value, later)) if column is not runs.c.seq else later


def _encode(order_by: str, row: Any) -> str:
    position = [order_by, row._mapping["_key"], row.seq]
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def _decode(cursor: str, order_by: str) -> tuple[Any, int]:
    try:
        order, value, seq = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if order == order_by and isinstance(value, (int, str)):
            return value, int(seq)
    except (ValueError, TypeError, binascii.Error):
        pass
    raise UserErrorException(
        "the cursor does not belong to this listing", hint="start again without a cursor"
    )
