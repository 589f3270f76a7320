"""Folders that outlive the nodes of a target: a row before there is one, and until it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from .tables import homes


def find(connection: Connection, home: str) -> Row[Any] | None:
    return connection.execute(select(homes).where(homes.c.id == home)).first()


def ensure(connection: Connection, home: str, site: str) -> None:
    if find(connection, home) is None:
        connection.execute(insert(homes).values(id=home, site=site, config={}))


def settle(connection: Connection, home: str, config: Mapping[str, Any]) -> None:
    """Where it lies."""
    connection.execute(update(homes).where(homes.c.id == home).values(config=dict(config)))


def remove(connection: Connection, home: str) -> None:
    connection.execute(delete(homes).where(homes.c.id == home))
