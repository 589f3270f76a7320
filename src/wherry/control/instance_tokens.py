"""Tokens of compute instances: made from the server's key, never stored, good while the instance
is there.
"""

from __future__ import annotations

import hmac
from typing import Any

from sqlalchemy import Row

from wherry.core.errors import AuthenticationException
from wherry.store import computes

from .plane import Plane

MARK = "wi."


def make(plane: Plane, row: Row[Any]) -> str:
    return f"{MARK}{row.id}.{_seal(plane, row.id)}"


def check(plane: Plane, token: str) -> Row[Any]:
    """The instance that the token is of."""
    compute_id, _, seal = token.removeprefix(MARK).partition(".")
    if not hmac.compare_digest(seal.encode(), _seal(plane, compute_id).encode()):
        raise AuthenticationException("the token is not valid")
    with plane.database.read() as connection:
        row = computes.by_id(connection, compute_id)
    if row is None or row.deleting_at is not None:
        raise AuthenticationException("the token is of a compute instance that is gone")
    return row


def _seal(plane: Plane, compute_id: str) -> str:
    return hmac.digest(plane.secret, f"instance token\n{compute_id}".encode(), "sha256").hex()
