"""How a browser comes to be let in to a compute instance: a code that is good once, then a cookie.

A cookie is made from the server's key: it outlives the server, and is worth nothing once the
instance is deleted.
"""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import Any

from wherry.core.compute_configs import INSTANCE
from wherry.core.errors import ConflictError
from wherry.core.records import iso
from wherry.core.targets import instance_path, key
from wherry.store import computes, workspaces

from .computes import get
from .plane import Plane

COOKIE_LASTS = timedelta(hours=24)
RENEWED_AFTER = COOKIE_LASTS / 2


def open_instance(plane: Plane, workspace_name: str, name: str) -> dict[str, Any]:
    """An address that lets whoever visits it first in, whatever state the instance is in."""
    with plane.database.read() as connection:
        row = get(connection, workspaces.get(connection, workspace_name), name)
    if row.kind != INSTANCE:
        raise ConflictError(
            f"compute target {name!r} is no compute instance: there is nothing to open on it",
            hint="create one with: wherry compute create --type ComputeInstance",
        )
    code, until = plane.codes.give(row.id, plane.now())
    return {"url": f"{instance_path(row.target)}?code={code}", "expires_at": iso(until)}


def instance_id(plane: Plane, workspace: str, name: str) -> str | None:
    """Whom cookies for this address must be of; None where nobody is to be let in."""
    with plane.database.read() as connection:
        row = computes.find(connection, key(workspace, name))
    return None if row is None or row.deleting_at is not None else str(row.id)


def cookie(plane: Plane, compute_id: str) -> str:
    """Its value."""
    until = int((plane.now() + COOKIE_LASTS).timestamp())
    return f"{until}.{_seal(plane, compute_id, until)}"


def left(plane: Plane, compute_id: str, value: str) -> timedelta | None:
    """How much longer a cookie lets in to this instance; None if it does not."""
    until, _, seal = value.partition(".")
    if not (until.isascii() and until.isdecimal()) or len(until) > 12:
        return None
    good = _seal(plane, compute_id, int(until))
    if not hmac.compare_digest(seal.encode("utf-8", "surrogateescape"), good.encode()):
        return None
    rest = timedelta(seconds=int(until) - plane.now().timestamp())
    return rest if timedelta() < rest <= COOKIE_LASTS else None


def _seal(plane: Plane, compute_id: str, until: int) -> str:
    said = f"instance cookie\n{compute_id}\n{until}".encode()
    return hmac.digest(plane.secret, said, "sha256").hex()
