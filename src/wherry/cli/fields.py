"""Sections of files that people write: each has its own fields and no others."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from ..core.errors import UserErrorException
from .command import guess


def check_fields(what: str, given: Iterable[Any], known: Sequence[str], hint: str) -> None:
    """Refuse a section that has another field than these."""
    for name in map(str, given):
        if name not in known:
            raise UserErrorException(f"{what} has no field {name!r}{guess(name, known)}", hint=hint)
