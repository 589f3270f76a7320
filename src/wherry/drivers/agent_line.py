"""The line to a machine: one connection and one agent, made when needed and again when lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from wherry.core.errors import TargetUnavailableError
from wherry.runner.connection import split_url

from . import agent_answers, agent_talk
from .agent_talk import Agent, Answer, LostError, Take
from .base import unsent
from .places import Connect, Opened, Place, RefusedError

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
_QUICK_S = 10.0
# Asking again soon would not help, and has people locked out.
_REFUSED_PAUSE_S = 150.0
_REFUSALS = ("credentials", "host_key", "key")


class Link:
    """What is there as long as one connection lasts; ``way`` is where the server is, seen from the
    node.
    """

    def __init__(self, opened: Opened, agent: Agent) -> None:
        self.opened = opened
        self.agent = agent
        self.way = ""
        self.server_files: dict[str, str] = {}

    async def tell_server(self, root: str) -> str:
        """The file on the node that says where the server is."""
        if root not in self.server_files:
            request = {"do": "tell_server", "root": root, "url": self.way}
            answer, _ = await self.agent.ask(request, b"", _QUICK_S)
            self.server_files[root] = agent_answers.text(answer["file"])
        return self.server_files[root]

    async def close(self) -> None:
        self.agent.close()
        await self.opened.close()


class Line:
    """Lives in the loop of ``agent_lines``. While it is held, a lost connection is made again."""

    def __init__(self, place: Place, server: str, take: Take, connect: Connect) -> None:
        self._place = place
        self._server = server
        self._take = take
        self._connect = connect
        self._link: Link | None = None
        self._opening: asyncio.Task[Link] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._problem: TargetUnavailableError | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._try_at = 0.0
        self._woken = asyncio.Event()
        self._silent: dict[str, Any] | None = None
        self._roots: set[str] = set()
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._link is not None and not self._link.agent.lost.is_set()

    def wake(self) -> None:
        """There is reason to hope: it is tried again now, whatever was refused before."""
        self._try_at, self._pause_s = 0.0, _FIRST_PAUSE_S
        self._woken.set()

    async def ask(self, fields: Mapping[str, Any], data: bytes, limit_s: float) -> Answer:
        """Once more where a connection turns out to have been lost before it was asked."""
        used = self.connected
        try:
            link = await self.link()
        except TargetUnavailableError as error:
            raise unsent(error) from None
        try:
            return await self._ask(link, fields, data, limit_s)
        except LostError:
            if not used:
                raise self._lost() from None
        try:
            return await self._ask(await self.link(), fields, data, limit_s)
        except LostError:
            raise self._lost() from None

    async def link(self) -> Link:
        if self._closed:
            raise TargetUnavailableError(f"the connection to {self._place} was closed")
        if self._link is not None and self.connected:
            return self._link
        if self._opening is None:
            if self._problem is not None and time.monotonic() < self._try_at:
                raise self._problem.with_traceback(None)
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def server_file(self, root: str) -> tuple[Link, str]:
        self._roots.add(root)
        link = await self.link()
        try:
            with agent_answers.making_sense(self._place):
                return link, await link.tell_server(root)
        except (TimeoutError, LostError):
            raise self._lost() from None

    async def close(self) -> None:
        self._closed = True
        for task in (self._keeping, self._opening):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, TargetUnavailableError):
                    await task
        if self._link is not None:
            await self._link.close()
            self._link = None

    async def _ask(
        self, link: Link, fields: Mapping[str, Any], data: bytes, limit_s: float
    ) -> Answer:
        try:
            return await link.agent.ask(fields, data, limit_s)
        except TimeoutError:
            self._silent = link.agent.hello
            await link.close()
            raise TargetUnavailableError(
                f"{self._place} has not answered for {limit_s:.0f} s", cause="silent"
            ) from None

    def _lost(self) -> TargetUnavailableError:
        return TargetUnavailableError(f"the connection to {self._place} was lost", cause="lost")

    async def _open(self) -> Link:
        try:
            link = await self._opened()
        except TargetUnavailableError as error:
            refused = error.fields.get("cause") in _REFUSALS
            pause_s = _REFUSED_PAUSE_S if refused else self._pause_s
            self._problem, self._try_at = error, time.monotonic() + pause_s
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            raise
        finally:
            self._opening = None
        self._link, self._problem, self._pause_s = link, None, _FIRST_PAUSE_S
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.ensure_future(self._keep())
        return link

    async def _opened(self) -> Link:
        if self._link is not None:
            await self._link.close()
            self._link = None
        opened = await self._connect(self._place)
        try:
            agent = await agent_talk.start(self._place, opened, self._take)
            link = Link(opened, agent)
            await self._take_over(link)
        except BaseException:
            await opened.close()
            raise
        return link

    async def _take_over(self, link: Link) -> None:
        try:
            with agent_answers.making_sense(self._place):
                await self._begin(link)
        except (TimeoutError, LostError):
            raise self._lost() from None

    async def _begin(self, link: Link) -> None:
        if self._silent is not None:
            request = {"do": "end_other", **_who(self._silent)}
            await link.agent.ask(request, b"", _QUICK_S)
            self._silent = None
        if self._server:
            link.way = await self._way(link)
            for root in self._roots:
                await link.tell_server(root)

    async def _way(self, link: Link) -> str:
        """A port of the node's own that leads here: the same as before, or else any."""
        _, address, port, base = split_url(self._server)
        last = await self._last_port(link)
        for wanted in (last, 0):
            with suppress(RefusedError):
                found = await link.opened.forward(wanted, address, port)
                return f"http://127.0.0.1:{found}{base}"
        link.agent.streams.server = address, port
        answer, _ = await link.agent.ask({"do": "listen", "port": last}, b"", _QUICK_S)
        return f"http://127.0.0.1:{int(answer['port'])}{base}"

    async def _last_port(self, link: Link) -> int:
        for root in sorted(self._roots):
            answer, _ = await link.agent.ask({"do": "last_server", "root": root}, b"", _QUICK_S)
            with suppress(ValueError):
                _, address, port, _ = split_url(str(answer["url"]))
                if address == "127.0.0.1":
                    return port
        return 0

    async def _keep(self) -> None:
        """Runners on the node send what they have through this connection."""
        while self._link is not None:
            await self._link.agent.lost.wait()
            log.warning("the connection to %s was lost", self._place)
            self._silent = self._link.agent.hello  # it may never hear that nobody is there
            await self._reconnect()
            log.warning("the connection to %s is there again", self._place)

    async def _reconnect(self) -> None:
        while True:
            try:
                await self.link()
            except TargetUnavailableError as error:
                log.info("%s", error.message)
                await self._pause(max(_FIRST_PAUSE_S, self._try_at - time.monotonic()))
            else:
                return

    async def _pause(self, seconds: float) -> None:
        self._woken.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)


def _who(hello: Mapping[str, Any]) -> dict[str, Any]:
    return {"pid": hello["pid"], "identity": hello["identity"]}
