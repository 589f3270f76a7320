"""Machines that somebody declared lost: a row until they answer and nothing of ours is on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from .tables import lost_machines


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(lost_machines).values(**row))


def find(connection: Connection, machine_id: str) -> Row[Any] | None:
    query = select(lost_machines).where(lost_machines.c.id == machine_id)
    return connection.execute(query).first()


def change(connection: Connection, machine_id: str, changes: Mapping[str, Any]) -> None:
    where = lost_machines.c.id == machine_id
    connection.execute(update(lost_machines).where(where).values(**changes))


def every(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(select(lost_machines).order_by(lost_machines.c.given_up_at)))


def at_site(connection: Connection, name: str) -> list[Row[Any]]:
    """Hosts of a site that are set aside."""
    return list(connection.execute(select(lost_machines).where(lost_machines.c.site == name)))


def remove(connection: Connection, machine_id: str) -> None:
    connection.execute(delete(lost_machines).where(lost_machines.c.id == machine_id))
