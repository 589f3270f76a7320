"""Sites: where clusters take their nodes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from .tables import nodes, sites


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(sites).values(**row))


def find(connection: Connection, name: str, *, lock: bool = False) -> Row[Any] | None:
    query = select(sites).where(sites.c.name == name)
    return connection.execute(query.with_for_update() if lock else query).first()


def every(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(select(sites).order_by(sites.c.name)))


def change(connection: Connection, name: str, changes: Mapping[str, Any]) -> None:
    connection.execute(update(sites).where(sites.c.name == name).values(**changes))


def remove(connection: Connection, name: str) -> None:
    connection.execute(delete(sites).where(sites.c.name == name))


def nodes_at(connection: Connection, name: str) -> list[Row[Any]]:
    """Those that have not been removed, of whatever target."""
    query = select(nodes).where(nodes.c.site == name, nodes.c.removed_at.is_(None))
    return list(connection.execute(query.order_by(nodes.c.created_at)))
