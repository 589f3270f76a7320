"""Slow work beside the loop that asks for it: each piece once at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

_AT_ONCE = 16


class Workers:
    """Threads that come and go. What is under way, or finds no thread, is asked for again later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def do(self, name: str, work: Callable[[], None]) -> None:
        with self._lock:
            if name in self._busy or len(self._busy) >= _AT_ONCE:
                return
            self._busy.add(name)
        threading.Thread(target=self._run, args=(name, work), name=name, daemon=True).start()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # it is asked for again
            log.exception("work on %s", name)
        finally:
            with self._lock:
                self._busy.discard(name)


class AtOnce(Workers):
    """Without threads: done when it is asked for."""

    def do(self, name: str, work: Callable[[], None]) -> None:
        del name
        work()
