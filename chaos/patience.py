"""A clock for those who wait: it stands still while this machine does, as one that is suspended."""

from __future__ import annotations

import threading
import time

_TICK_S = 0.1
_LONGEST_S = 1.0


class _Clock(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="patience", daemon=True)
        self.seconds = 0.0

    def run(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(_TICK_S)
            now = time.monotonic()
            self.seconds += min(now - last, _LONGEST_S)
            last = now


_clock: _Clock | None = None
_starting = threading.Lock()


def awake_s() -> float:
    """Seconds in which something could be done."""
    global _clock  # noqa: PLW0603
    with _starting:
        if _clock is None:
            _clock = _Clock()
            _clock.start()
    return _clock.seconds
