"""Codes that let a browser in to a compute instance once. They are gone with the server."""

from __future__ import annotations

import secrets
import threading
from datetime import datetime, timedelta

CODE_LASTS = timedelta(seconds=60)
_MOST_CODES = 1000


class Codes:
    """That were given out and not used. ``compute_id`` is whom one lets in to."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, datetime]] = {}
        self._changing = threading.Lock()

    def give(self, compute_id: str, now: datetime) -> tuple[str, datetime]:
        """A code, and until when it is good. The oldest make room where nobody uses them."""
        code, until = secrets.token_urlsafe(32), now + CODE_LASTS
        with self._changing:
            for old in [each for each, (_, end) in self._given.items() if end <= now]:
                del self._given[old]
            if len(self._given) >= _MOST_CODES:
                del self._given[next(iter(self._given))]
            self._given[code] = compute_id, until
        return code, until

    def use(self, code: str, compute_id: str, now: datetime) -> bool:
        """Whether it was good; it is not any more."""
        with self._changing:
            known, until = self._given.pop(code, ("", now))
        return known == compute_id and now < until
