"""Who looks after what: a named lease that lapses unless its owner renews it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from .tables import leases


def claim(connection: Connection, name: str, owner: str, now: datetime, seconds: float) -> bool:
    """Take or renew the lease. False while another owner's has not lapsed."""
    expires_at = now + timedelta(seconds=seconds)
    taken = connection.execute(
        update(leases)
        .where(leases.c.name == name, or_(leases.c.owner == owner, leases.c.expires_at < now))
        .values(owner=owner, expires_at=expires_at)
    )
    if taken.rowcount == 1:
        return True
    try:
        with connection.begin_nested():
            connection.execute(insert(leases).values(name=name, owner=owner, expires_at=expires_at))
    except IntegrityError:
        return False
    return True


def owner(connection: Connection, name: str) -> str | None:
    return connection.execute(select(leases.c.owner).where(leases.c.name == name)).scalar()


def drop(connection: Connection, name: str, owner: str) -> None:
    connection.execute(delete(leases).where(leases.c.name == name, leases.c.owner == owner))
