"""What becomes of compute instances."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from .tables import instances


def find(connection: Connection, target: str) -> Row[Any] | None:
    return connection.execute(select(instances).where(instances.c.target == target)).first()


def add(connection: Connection, target: str, now: datetime, operation: Mapping[str, Any]) -> None:
    """A new one, before its first session."""
    facts: dict[str, Any] = {"sessions": 0, "failures": 0, "created": False, "restarting": False}
    row = {**facts, "target": target, "operation": dict(operation)}
    connection.execute(insert(instances).values(**row, active_at=now, scheduled_at=now))


def change(connection: Connection, target: str, changes: Mapping[str, Any]) -> None:
    connection.execute(update(instances).where(instances.c.target == target).values(**changes))


def remove(connection: Connection, target: str) -> None:
    connection.execute(delete(instances).where(instances.c.target == target))
