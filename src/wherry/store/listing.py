"""Pages of runs: filters, order and cursors."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    exists,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)

from wherry.core.errors import UserErrorException
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, Status
from wherry.core.sessions import SESSION
from wherry.core.text import clean

from . import runs as run_rows
from .run_labels import PROPERTY, TAG
from .runs import RunRow
from .tables import ORDERS, equals, experiments, labels, runs

_TEXT_ORDERS = {"status", "display_name"}
# Walked in another order than its own index has, a filter must let more runs through.
_FEW, _FEW_UNORDERED = 100, 300
_EXPERIMENT_ID = select(experiments.c.id).where(
    experiments.c.workspace_id == bindparam("workspace"), experiments.c.name == bindparam("called")
)


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
    order = _Order.parse(wanted.order_by)
    after = _decode(cursor, wanted.order_by) if cursor else None
    statuses = having(wanted.statuses)
    scope = _scope(connection, workspace_id, wanted)
    if scope is None:
        return [], None
    if wanted.type != SESSION:  # one that its client drives has no type
        scope = and_(scope, runs.c.type.is_distinct_from(SESSION))
    query = _query(connection, wanted, order, _Parts(scope, _plain(wanted), statuses, after), limit)
    found = list(connection.execute(query))
    following = _encode(wanted.order_by, found[limit - 1]) if len(found) > limit else None
    return run_rows.listed(connection, [row.seq for row in found[:limit]]), following


def having(statuses: Sequence[str]) -> list[Any]:
    """A condition for each of these statuses as they are shown, by which an index is served."""
    return [_has_status(each) for status in statuses for each in _stored(status)]


Label = tuple[str, str, str | None]


class _Order(NamedTuple):
    name: str
    key: ColumnElement[Any]
    descending: bool

    @classmethod
    def parse(cls, text: str) -> _Order:
        name = text.lstrip("-")
        if name not in ORDERS:
            raise UserErrorException(
                f"runs cannot be ordered by {name!r}", hint=f"choose one of {', '.join(ORDERS)}"
            )
        return cls(name, ORDERS[name], text.startswith("-"))

    def sort(self, query: Select[Any], key: Any, seq: Any) -> Select[Any]:
        keys = [seq] if self.key is runs.c.seq else [key, seq]
        return query.order_by(*[each.desc() if self.descending else each for each in keys])


class _Parts(NamedTuple):
    """What a listing asks for, in pieces that an index may serve."""

    scope: Any
    plain: dict[str, Any]
    statuses: list[Any]
    after: tuple[Any, int] | None


def _query(
    connection: Connection, wanted: Filter, order: _Order, parts: _Parts, limit: int
) -> Select[Any]:
    """The statement that reads little however many runs there are.

    Filters that few runs pass are looked up first, and what they leave is sorted. Filters that
    many pass are tried on the runs in their order: enough will come soon.
    """
    few = _few(connection, wanted, order, parts)
    if few is not None:
        conditions = [runs.c.seq.in_(few), parts.scope, *parts.plain.values(), *_probes(wanted)]
        if parts.statuses:
            conditions.append(or_(*parts.statuses))
        return _ordered(order, conditions, parts.after, limit)
    with_value = [label for label in _asked(wanted) if label[2] is not None]
    if order.key is runs.c.seq and with_value:
        return _led_by_label(order, with_value[0], wanted, parts, limit)
    conditions = [parts.scope, *parts.plain.values(), *_probes(wanted)]
    if len(parts.statuses) < 2:
        return _ordered(order, [*conditions, *parts.statuses], parts.after, limit)
    branches = [
        _ordered(order, [*conditions, status], parts.after, limit) for status in parts.statuses
    ]
    together = union_all(*[select(branch.subquery()) for branch in branches]).subquery()
    return order.sort(select(together), together.c["_key"], together.c.seq).limit(limit + 1)


def _ordered(
    order: _Order, conditions: list[Any], after: tuple[Any, int] | None, limit: int
) -> Select[Any]:
    query = select(runs.c.seq, order.key.label("_key")).where(*conditions)
    if after is not None:
        query = query.where(_after(order.key, after, order.descending))
    return order.sort(query, order.key, runs.c.seq).limit(limit + 1)


def _few(connection: Connection, wanted: Filter, order: _Order, parts: _Parts) -> list[int] | None:
    """The runs that pass the first filter that only few pass; None where each has many."""
    bound = _FEW if order.key is runs.c.seq else _FEW_UNORDERED
    named = [select(labels.c.run_seq).where(*_match(labels, label)) for label in _asked(wanted)]
    others: list[Select[Any]] = []
    if wanted.parent_id:
        others.append(select(runs.c.seq).where(parts.plain["parent"]))
    if parts.statuses:
        found = [select(runs.c.seq).where(parts.scope, each) for each in parts.statuses]
        bounded = [select(each.limit(bound + 1).subquery()) for each in found]
        others.append(select(union_all(*bounded).subquery()))
    elif wanted.experiment:
        others.append(select(runs.c.seq).where(parts.scope))
    for name in ("target", "type", "archived"):
        if name in parts.plain and (name != "archived" or wanted.archived == "archived"):
            others.append(select(runs.c.seq).where(parts.scope, parts.plain[name]))
    if not named and len(others) == 1 and order.key is runs.c.seq:
        return None  # its own index has the order
    for query in [*named, *others]:
        seqs = list(connection.execute(query.limit(bound + 1)).scalars())
        if len(seqs) <= bound:
            return seqs
    return None


def _led_by_label(
    order: _Order, lead: Label, wanted: Filter, parts: _Parts, limit: int
) -> Select[Any]:
    """Labels of one value are indexed in the order of submission, too."""
    seq = labels.c.run_seq
    query = (
        select(seq.label("seq"), seq.label("_key"))
        .join_from(labels, runs, runs.c.seq == seq)
        .where(*_match(labels, lead), parts.scope, *parts.plain.values(), *_probes(wanted, lead))
    )
    if parts.statuses:
        query = query.where(or_(*parts.statuses))
    if parts.after is not None:
        place = parts.after[1]
        query = query.where(seq < place if order.descending else seq > place)
    return order.sort(query, seq, seq).limit(limit + 1)


def _scope(connection: Connection, workspace_id: str, wanted: Filter) -> Any:
    """The workspace, or one experiment of it; None where there is none of the name."""
    if not wanted.experiment:
        return runs.c.workspace_id == workspace_id
    where = {"workspace": workspace_id, "called": wanted.experiment}
    found = connection.execute(_EXPERIMENT_ID, where).scalar()
    return None if found is None else runs.c.experiment_id == found


def _plain(wanted: Filter) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if wanted.type:
        found["type"] = runs.c.type == wanted.type
    if wanted.target:
        found["target"] = runs.c.target == wanted.target
    if wanted.parent_id:
        found["parent"] = runs.c.parent_id == wanted.parent_id
    elif not wanted.include_children:
        found["parent"] = runs.c.parent_id.is_(None)
    if wanted.archived == "active":
        found["archived"] = runs.c.archived_at.is_(None)
    elif wanted.archived == "archived":
        found["archived"] = runs.c.archived_at.is_not(None)
    return found


def _stored(status: str) -> list[tuple[str, bool]]:
    """As statuses are stored, each with whether an end was asked for."""
    if status == CANCEL_REQUESTED:
        return [(each.value, True) for each in Status if each not in TERMINAL]
    try:
        return [(Status(status).value, False)]
    except ValueError:
        raise UserErrorException(
            f"{status!r} is not a status",
            hint=f"statuses are {', '.join([s.value for s in Status] + [CANCEL_REQUESTED])}",
        ) from None


def _has_status(stored: tuple[str, bool]) -> Any:
    status, canceling = stored
    if Status(status).terminal:
        return runs.c.status == status
    asked = runs.c.cancel_requested_at
    return and_(runs.c.status == status, asked.is_not(None) if canceling else asked.is_(None))


def _asked(wanted: Filter) -> list[Label]:
    """Kind, name and value of each label that is asked for."""
    kinds = ((TAG, wanted.tags), (PROPERTY, wanted.properties))
    return [(kind, key, value) for kind, values in kinds for key, value in values.items()]


def _match(table: Any, label: Label) -> list[Any]:
    kind, key, value = label
    match = [table.c.kind == kind, table.c.key == key]
    return match if value is None else [*match, *equals(table.c.value, value)]


def _probes(wanted: Filter, lead: Label | None = None) -> list[Any]:
    """A look at each label but one, by the run it belongs to."""
    other = labels.alias()
    return [
        exists().where(other.c.run_seq == runs.c.seq, *_match(other, label))
        for label in _asked(wanted)
        if label != lead
    ]


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
