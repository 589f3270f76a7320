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
    found: dict[str, str] = sealing.unseal(plane.secret, f"compute {row.target}", row.secrets)
    return found


def sealed(plane: Plane, target: str, secrets: Mapping[str, str]) -> str | None:
    return sealing.seal(plane.secret, f"compute {target}", dict(secrets)) if secrets else None
