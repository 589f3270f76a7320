"""Tokens, kept only as hashes."""

from __future__ import annotations

import hashlib
from datetime import datetime

from sqlalchemy import Connection, insert, select

from wherry.core.ids import new_uuid

from .tables import tokens


def ensure(connection: Connection, name: str, token: str, now: datetime) -> None:
    if holder(connection, token) is None:
        connection.execute(
            insert(tokens).values(id=new_uuid(), name=name, hash=_hash(token), created_at=now)
        )


def holder(connection: Connection, token: str) -> str | None:
    """The name that a valid token was given."""
    query = select(tokens.c.name).where(
        tokens.c.hash == _hash(token), tokens.c.revoked_at.is_(None)
    )
    return connection.execute(query).scalar()


def _hash(token: str) -> str:
    # Tokens are 256 random bits: a plain hash cannot be searched.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
