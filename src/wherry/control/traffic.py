"""What goes through the proxy to a compute instance, as its idleness is told by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime


@dataclass
class Traffic:
    """Of one target, since the server started."""

    websockets: int = 0  # that are open now
    last_closed_at: datetime | None = None
    last_request_at: datetime | None = None

    @contextmanager
    def websocket(self, now: Callable[[], datetime]) -> Iterator[None]:
        self.websockets += 1
        try:
            yield
        finally:
            self.websockets -= 1
            self.last_closed_at = now()
