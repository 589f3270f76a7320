"""Runs that meet conditions, in an order: also by what they logged.

Whatever the size of the store, little of it is read: a condition that few runs meet is looked up
by its index, and else the runs are walked in the order that is asked for, by an index of that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    case,
    exists,
    literal,
    not_,
    or_,
    select,
    tuple_,
    union_all,
)

from wherry.core.errors import UserErrorException
from wherry.core.search import ATTRIBUTE, METRIC, Condition, Order
from wherry.core.sessions import SESSION

from . import conditions, listing
from .run_labels import PARAM, PROPERTY, TAG
from .tables import bytewise, equals, experiments, labels, runs, series

_FEW = 100
_BRANCHES = 100
_KINDS = {"tags": TAG, "params": PARAM, "properties": PROPERTY}


@dataclass(frozen=True)
class Search:
    """Without experiments, the whole workspace. ``archived`` is active, archived or all;
    ``statuses`` are those that are shown.
    """

    workspace_id: str
    experiment_ids: Sequence[str] = ()
    conditions: Sequence[Condition] = ()
    orders: Sequence[Order] = ()
    archived: str = "active"
    top_only: bool = False
    statuses: Sequence[str] = ()


class _Cursor(NamedTuple):
    """Where a page ended: in which part of the order, behind which value and run; or, of an order
    that no index has, behind how many runs.
    """

    part: str
    value: Any
    place: int


def page(
    connection: Connection, search: Search, limit: int, cursor: str | None
) -> tuple[list[int], str | None]:
    """The runs by number, and the cursor of the next page if there is one."""
    after = _decode(cursor) if cursor else None
    order = search.orders[0] if search.orders else None
    walk = _Walk(connection, search, limit)
    if walk.few is not None or len(search.orders) > 1:
        found = walk.sorted(after)
    elif order is None or (order.entity, order.key) == (ATTRIBUTE, "submit_time"):
        found = walk.by_submission(after, descending=order is None or order.descending)
    elif order.entity == METRIC and walk.experiment_ids:
        found = walk.by_metric(after, order)
    else:
        found = walk.sorted(after)
    following = _encode(found[limit - 1][1]) if len(found) > limit else None
    return [seq for seq, _ in found[:limit]], following


class _Walk:
    def __init__(self, connection: Connection, search: Search, limit: int) -> None:
        self._connection = connection
        self._search = search
        self._wanted = limit + 1
        sqlite = connection.dialect.name == "sqlite"
        self._where = [
            *_scope(search),
            *[conditions.holds(condition, sqlite=sqlite) for condition in search.conditions],
        ]
        self.experiment_ids = self._find_experiments()
        self.few = self._find_few()

    def sorted(self, after: _Cursor | None) -> list[tuple[int, _Cursor]]:
        """All that are there are put into order."""
        done = after.place if after is not None and after.part == "sorted" else 0
        where = self._where if self.few is None else [*self._where, runs.c.seq.in_(self.few)]
        query = select(runs.c.seq).where(*where)
        keys = [key for order in self._search.orders for key in _keys(order)]
        query = query.order_by(*keys, runs.c.seq.desc()).offset(done).limit(self._wanted)
        seqs = self._connection.execute(query).scalars()
        return [(seq, _Cursor("sorted", None, done + place)) for place, seq in enumerate(seqs, 1)]

    def by_submission(
        self, after: _Cursor | None, *, descending: bool
    ) -> list[tuple[int, _Cursor]]:
        branches = [
            self._submitted([where, *self._where], after, descending) for where in self._branches()
        ]
        seqs = self._merged(branches, [runs.c.seq], descending)
        return [(row.seq, _Cursor("submitted", None, row.seq)) for row in seqs]

    def by_metric(self, after: _Cursor | None, order: Order) -> list[tuple[int, _Cursor]]:
        """First the runs that have a value, then the others."""
        found: list[tuple[int, _Cursor]] = []
        if after is None or after.part == "valued":
            branches = [
                self._valued(experiment_id, order, after) for experiment_id in self.experiment_ids
            ]
            keys = [series.c.last_value, series.c.run_seq]
            found = [
                (row.run_seq, _Cursor("valued", row.last_value, row.run_seq))
                for row in self._merged(branches, keys, order.descending)
            ]
        if len(found) >= self._wanted or self._is_bounded(order):
            return found
        left = None if after is None or after.part == "valued" else after
        without = not_(
            exists().where(
                series.c.run_seq == runs.c.seq,
                *equals(series.c.name, order.key),
                series.c.last_value.is_not(None),
            )
        )
        branches = [
            self._submitted([where, *self._where, without], left, descending=True)
            for where in self._branches()
        ]
        rest = self._merged(branches, [runs.c.seq], descending=True)
        found += [(row.seq, _Cursor("others", None, row.seq)) for row in rest]
        return found[: self._wanted]

    def _find_experiments(self) -> Sequence[str]:
        """Where values of metrics are looked up, which are indexed by experiment; none where there
        are too many, or no metric is asked about.
        """
        asked = {each.entity for each in self._search.conditions}
        if METRIC not in asked | {order.entity for order in self._search.orders[:1]}:
            return []
        known = self._search.experiment_ids
        if not known:
            mine = experiments.c.workspace_id == self._search.workspace_id
            query = select(experiments.c.id).where(mine).limit(_BRANCHES + 1)
            known = list(self._connection.execute(query).scalars())
        return known if len(known) <= _BRANCHES else []

    def _find_few(self) -> list[int] | None:
        """The runs that meet the first condition that only few meet."""
        for condition in self._search.conditions:
            query = conditions.narrow(condition, self.experiment_ids)
            if query is not None:
                seqs = list(self._connection.execute(query.limit(_FEW + 1)).scalars())
                if len(seqs) <= _FEW:
                    return seqs
        return None

    def _branches(self) -> list[ColumnElement[bool]]:
        """Parts of the search of which an index has the order of submission."""
        ids = self._search.experiment_ids
        if 1 <= len(ids) <= _BRANCHES:
            return [runs.c.experiment_id == each for each in ids]
        return [runs.c.workspace_id == self._search.workspace_id]

    def _submitted(self, where: list[Any], after: _Cursor | None, descending: bool) -> Select[Any]:
        query = select(runs.c.seq).where(*where)
        if after is not None:
            seq = after.place
            query = query.where(runs.c.seq < seq if descending else runs.c.seq > seq)
        return query

    def _valued(self, experiment_id: str, order: Order, after: _Cursor | None) -> Select[Any]:
        query = select(series.c.last_value, series.c.run_seq).where(
            series.c.experiment_id == experiment_id,
            *equals(series.c.name, order.key),
            series.c.last_value.is_not(None),
            *[last for each in self._bounds(order) for last in conditions.of_metric(each)],
            exists().where(runs.c.seq == series.c.run_seq, *self._where),
        )
        if after is not None:
            here = tuple_(series.c.last_value, series.c.run_seq)
            there = tuple_(literal(after.value), literal(after.place))
            query = query.where(here < there if order.descending else here > there)
        return query

    def _bounds(self, order: Order) -> list[Condition]:
        """Conditions on the very metric by which is sorted."""
        return [
            each
            for each in self._search.conditions
            if (each.entity, each.key) == (METRIC, order.key)
        ]

    def _is_bounded(self, order: Order) -> bool:
        return bool(self._bounds(order))

    def _merged(self, branches: list[Select[Any]], keys: list[Any], descending: bool) -> list[Any]:
        """The first of all, with the first of each looked up by itself."""

        def first(query: Select[Any], by: list[Any]) -> Select[Any]:
            return query.order_by(*[key.desc() if descending else key for key in by]).limit(
                self._wanted
            )

        if len(branches) == 1:
            return list(self._connection.execute(first(branches[0], keys)))
        together = union_all(
            *[select(first(branch, keys).subquery()) for branch in branches]
        ).subquery()
        by = [together.c[key.name] for key in keys]
        return list(self._connection.execute(first(select(together), by)))


def _scope(search: Search) -> list[Any]:
    found: list[Any] = [
        runs.c.workspace_id == search.workspace_id,
        runs.c.type.is_distinct_from(SESSION),  # one that its client drives has no type
    ]
    if search.experiment_ids:
        found.append(runs.c.experiment_id.in_(search.experiment_ids))
    if search.archived == "active":
        found.append(runs.c.archived_at.is_(None))
    elif search.archived == "archived":
        found.append(runs.c.archived_at.is_not(None))
    if search.top_only:
        found.append(runs.c.parent_id.is_(None))
    if search.statuses:
        found.append(or_(*listing.having(search.statuses)))
    return found


def _keys(order: Order) -> list[Any]:
    """What rows are sorted by: those without a value come last, whatever the direction."""
    key = _key(order)
    return [case((key.is_(None), 1), else_=0), key.desc() if order.descending else key]


def _key(order: Order) -> Any:
    if order.entity == METRIC:
        mine = (series.c.run_seq == runs.c.seq, series.c.name == order.key)
        return select(series.c.last_value).where(*mine).scalar_subquery()
    if order.entity in _KINDS:
        kind = _KINDS[order.entity]
        named = (labels.c.run_seq == runs.c.seq, labels.c.kind == kind, labels.c.key == order.key)
        return select(bytewise(labels.c.value)).where(*named).scalar_subquery()
    if order.entity == ATTRIBUTE:
        return conditions.order_key(order.key)
    raise UserErrorException(f"runs cannot be ordered by {order.entity}")


def _encode(cursor: _Cursor) -> str:
    return base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode()


def _decode(text: str) -> _Cursor:
    try:
        part, value, place = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, TypeError, RecursionError):
        part = value = place = None
    valued = isinstance(value, float) if part == "valued" else value is None
    known = part in ("sorted", "submitted", "valued", "others")
    if known and valued and type(place) is int and 0 <= place < 2**63:
        return _Cursor(part, value, place)
    raise UserErrorException(
        "the cursor does not belong to this search", hint="start again without a cursor"
    )
