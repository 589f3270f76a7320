"""Conditions and orders of a search for models, as SQL about one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, Table, type_coerce

from wherry.core.errors import UserErrorException
from wherry.core.search import ATTRIBUTE, Condition, Order

from .conditions import COMPARED, of_text
from .tables import Timestamp

_MICROSECONDS = 1000


class Searched(NamedTuple):
    """A kind of models: the columns of their attributes, and those that hold labels, by entity."""

    table: Table
    attributes: Mapping[str, ColumnElement[Any]]
    labels: Mapping[str, ColumnElement[Any]]


def holds(what: Searched, condition: Condition, *, sqlite: bool) -> ColumnElement[bool]:
    entity, key, operator, value = condition
    if entity != ATTRIBUTE:
        return of_text(_label(what, entity, key), operator, value, sqlite)
    column = what.attributes[key]
    if isinstance(column.type, Timestamp):
        moment = round(float(str(value)) * _MICROSECONDS)
        return COMPARED[operator](type_coerce(column, BigInteger), moment)
    if isinstance(value, float):
        return COMPARED[operator](column, value)
    return of_text(column, operator, value, sqlite)


def sorted_by(what: Searched, order: Order) -> list[ColumnElement[Any]]:
    """Those without a value come last."""
    column = what.attributes.get(order.key) if order.entity == ATTRIBUTE else None
    if column is None:
        column = _label(what, order.entity, order.key)
    return directed(column, descending=order.descending)


def directed(column: Any, *, descending: bool) -> list[ColumnElement[Any]]:
    return [column.is_(None), column.desc() if descending else column.asc()]


def page(
    connection: Connection, query: Select[Any], limit: int, token: str | None
) -> tuple[Sequence[Row[Any]], str | None]:
    """The rows behind the token, and the token of what follows them."""
    if token and not token.isdecimal():
        raise UserErrorException(f"Invalid page token {token!r}.")
    first = int(token) if token else 0
    rows = connection.execute(query.limit(limit + 1).offset(first)).all()
    return rows[:limit], str(first + limit) if len(rows) > limit else None


def _label(what: Searched, entity: str, key: str) -> ColumnElement[Any]:
    if '"' in key or "\\" in key:
        raise UserErrorException(
            f"models cannot be searched by {entity} with a quote in their name"
        )
    found: ColumnElement[Any] = what.labels[entity][key].as_string()
    return found
