"""Tokens, kept only as hashes."""

from __future__ import annotations

import hashlib
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from wherry.core.ids import new_uuid

from .tables import tokens


def ensure(connection: Connection, name: str, token: str, now: datetime) -> None:
    """This is the name's token from now on, and no other."""
    connection.execute(delete(tokens).where(tokens.c.name == name, tokens.c.hash != _hash(token)))
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
