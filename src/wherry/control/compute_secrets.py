"""What opens a compute target, sealed in its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from . import sealing
from .plane import Plane


def opened(plane: Plane, row: Row[Any]) -> dict[str, str]:
    if row.secrets is None:
        return {}
    try:
        found: dict[str, str] = sealing.unseal(plane.secret, f"compute {row.target}", row.secrets)
    except sealing.UnsealError:
        raise sealing.UnsealError(
            f"the secrets of compute target {row.name!r} were sealed with another key",
            hint="put back the secret.key that belongs to this database, or give them again with "
            "wherry compute update",
        ) from None
    return found


def readable(plane: Plane, row: Row[Any]) -> dict[str, str]:
    """The same; none of those that another key has sealed."""
    try:
        return opened(plane, row)
    except sealing.UnsealError:
        return {}


def sealed(plane: Plane, target: str, secrets: Mapping[str, str]) -> str | None:
    return sealing.seal(plane.secret, f"compute {target}", dict(secrets)) if secrets else None
