"""The one thread in which all lines of this process to agents live, and who shares which."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from wherry.core.errors import TargetUnavailableError

from .agent_line import Line
from .places import Connect, Place

T = TypeVar("T")


class Loop:
    """Started by the first who needs it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        """What it returns, or ``TargetUnavailableError`` when that takes longer."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result(limit_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TargetUnavailableError(f"it has not answered for {limit_s:.0f} s") from None

    def leave(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have it done, and do not wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="agents", daemon=True).start()
            return self._loop


class Taker(Protocol):
    def put(self, reports: list[Mapping[str, Any]]) -> None: ...


class Shared:
    """A line and those who hold it: by root, who take what runners hand over.

    A machine that is attached twice has two of them, and each knows which attempts are its own.
    """

    def __init__(self, place: Place, server: str, connect: Connect) -> None:
        self.line = Line(place, server, self._take, connect)
        self.holders = 0
        self.takers: dict[str, WeakSet[Taker]] = {}

    def _take(self, root: str, reports: list[Mapping[str, Any]]) -> None:
        for taker in list(self.takers.get(root, ())):
            taker.put(reports)


class Lines:
    """One line per machine and server, whoever asks."""

    def __init__(self) -> None:
        self.loop = Loop()
        self._shared: dict[tuple[Place, str], Shared] = {}
        self._changing = threading.Lock()

    def hold(self, place: Place, server: str, connect: Connect) -> Shared:
        with self._changing:
            key = (place, server)
            if key not in self._shared:
                self._shared[key] = Shared(place, server, connect)
            self._shared[key].holders += 1
            return self._shared[key]

    def wake(self, *places: Place) -> None:
        """Lines to these that wait since they were refused try again at once, whoever they are
        there.
        """
        wanted = {place.where for place in places}
        with self._changing:
            found = [s for (place, _), s in self._shared.items() if place.where in wanted]
        for shared in found:
            self.loop.leave(_wake(shared.line))

    def let_go(self, place: Place, server: str) -> None:
        """From any thread at any time, also by a collection while that thread holds a lock."""
        self.loop.leave(self._let_go(place, server))

    async def _let_go(self, place: Place, server: str) -> None:
        with self._changing:
            shared = self._shared[place, server]
            shared.holders -= 1
            if shared.holders:
                return
            del self._shared[place, server]
        await shared.line.close()


async def _wake(line: Line) -> None:
    line.wake()


lines = Lines()
_of_parents: list[Lines] = []


def _begin_anew() -> None:
    """In a forked process: the thread is not there, and the connections are its parent's."""
    global lines  # noqa: PLW0603
    _of_parents.append(lines)
    lines = Lines()


os.register_at_fork(after_in_child=_begin_anew)
