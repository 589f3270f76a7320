"""Wake-ups inside one server: they make things quick; polling alone keeps them correct."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator


class Signals:
    """Tells whoever waits on a topic that it changed. Called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Subscription]] = {}

    def notify(self, topic: str) -> None:
        with self._lock:
            subscriptions = list(self._waiting.get(topic, ()))
        for subscription in subscriptions:
            subscription.wake()

    @contextlib.contextmanager
    def subscribe(self, topic: str) -> Iterator[Subscription]:
        """For coroutines: changes after this call are not missed."""
        subscription = Subscription(asyncio.get_running_loop())
        with self._lock:
            self._waiting.setdefault(topic, set()).add(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._waiting[topic].discard(subscription)
                if not self._waiting[topic]:
                    del self._waiting[topic]


class Subscription:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closing
            self._loop.call_soon_threadsafe(self._event.set)

    async def changed(self, timeout_s: float) -> None:
        """Return at the next change, or when the time is up."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout_s)
        self._event.clear()
