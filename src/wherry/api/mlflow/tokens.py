"""Pages of lists that are short enough to be made whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from wherry.core.errors import UserErrorException

T = TypeVar("T")


def cut(found: Sequence[T], limit: int, token: str | None) -> tuple[Sequence[T], str | None]:
    """The page behind the token, and the token of the next one."""
    if token and not token.isdecimal():
        raise UserErrorException(f"Invalid page token {token!r}.")
    first = int(token) if token else 0
    end = first + limit
    return found[first:end], str(end) if end < len(found) else None
