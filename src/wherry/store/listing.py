"""Pages of runs: filters, order and cursors."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, and_, literal, or_, select, tuple_

from wherry.core.errors import UserErrorException
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, Status
from wherry.core.text import clean

from . import runs as run_rows
from .runs import RunRow
from .tables import ORDERS, experiments, head_of, labels, runs

_TEXT_ORDERS = {"status", "display_name"}


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
    """The rows, and the cursor of the next page if there is one.

    The page is found in the table of runs alone, where an index serves each order; joined with
    the names, a planner without statistics would rather sort everything.
    """
    name, descending = wanted.order_by.lstrip("-"), wanted.order_by.startswith("-")
    if name not in ORDERS:
        raise UserErrorException(
            f"runs cannot be ordered by {name!r}", hint=f"choose one of {', '.join(ORDERS)}"
        )
    key = ORDERS[name]
    query = _filtered(select(runs.c.seq, key.label("_key")), workspace_id, wanted)
    if cursor:
        query = query.where(_after(key, _decode(cursor, wanted.order_by), descending))
    order = (key.desc(), runs.c.seq.desc()) if descending else (key, runs.c.seq)
    found = list(connection.execute(query.order_by(*order).limit(limit + 1)))
    following = _encode(wanted.order_by, found[limit - 1]) if len(found) > limit else None
    return _rows(connection, [row.seq for row in found[:limit]]), following


def _rows(connection: Connection, seqs: list[int]) -> list[RunRow]:
    rows = connection.execute(run_rows.joined().where(runs.c.seq.in_(seqs)))
    by_seq = {row.seq: row for row in rows}
    return [by_seq[seq] for seq in seqs]


def _filtered(query: Select[Any], workspace_id: str, wanted: Filter) -> Select[Any]:
    query = query.where(_scope(workspace_id, wanted))
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


def _scope(workspace_id: str, wanted: Filter) -> Any:
    """The workspace, or one experiment of it: each has an index in the order of submission."""
    if not wanted.experiment:
        return runs.c.workspace_id == workspace_id
    mine = select(experiments.c.id).where(
        experiments.c.workspace_id == workspace_id, experiments.c.name == wanted.experiment
    )
    return runs.c.experiment_id == mine.scalar_subquery()


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
    matches = [labels.c.kind == kind, labels.c.key == key]
    if value is not None:
        matches += [head_of(labels.c.value) == value[:100], labels.c.value == value]
    return runs.c.seq.in_(select(labels.c.run_seq).where(*matches))


def _after(column: Any, position: tuple[Any, int], descending: bool) -> Any:
    value, seq = position
    if column is runs.c.seq:
        return column < seq if descending else column > seq
    here, there = tuple_(column, runs.c.seq), tuple_(literal(value), literal(seq))
    return here < there if descending else here > there


def _encode(order_by: str, row: Any) -> str:
    position = [order_by, row._mapping["_key"], row.seq]
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def _decode(cursor: str, order_by: str) -> tuple[Any, int]:
    try:
        order, value, seq = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError, RecursionError):
        order = value = seq = None
    if order == order_by and _is_key(order, value) and _is_key("submitted_at", seq):
        return value, seq
    raise UserErrorException(
        "the cursor does not belong to this listing", hint="start again without a cursor"
    )


def _is_key(order: str, value: object) -> bool:
    """Whether a column of that order can be compared with the value."""
    if order.lstrip("-") in _TEXT_ORDERS:
        return isinstance(value, str) and clean(value) == value
    return type(value) is int and 0 <= value < 2**63
