"""Bodies that are being received, counted: however many clients send, memory has a limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wherry.core.errors import ServerUnavailableError


class Held:
    """How many bytes may still be held. Used by the event loop alone."""

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def share(self) -> Iterator[Share]:
        """What one request takes, given back when it is done."""
        share = Share()
        try:
            yield share
        finally:
            self._left += share.taken

    def take(self, share: Share, count: int) -> None:
        if count > self._left:
            raise ServerUnavailableError("the server receives too much at once: try again later")
        self._left -= count
        share.taken += count


class Share:
    taken = 0
