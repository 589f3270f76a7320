"""The agent on a node as seen from here: started over a connection, asked, answered."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from wherry.core.errors import TargetUnavailableError

from . import agent_answers, agent_bundle, frames
from .agent_start import NONE_FOUND, READY
from .agent_streams import AgentStreams
from .places import Opened, Place, Process

log = logging.getLogger(__name__)

START_S = 30.0
_NOISE = 1 << 18
_KEPT_WORDS = 4000
_LARGEST_GREETING = 1 << 16
_GREETED = ("python", "version", "system", "host")

Answer = tuple[dict[str, Any], bytes]
Take = Callable[[str, list[Mapping[str, Any]]], None]


class LostError(Exception):
    """The agent will not answer any more; whether it did what it was asked is not known."""


class Agent:
    """``take`` is called with a root and what runners there handed over."""

    def __init__(self, place: Place, process: Process, take: Take) -> None:
        self._place = place
        self._process = process
        self._take = take
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._words: deque[bytes] = deque(maxlen=20)
        self.streams = AgentStreams(self._send)
        self._tasks = [asyncio.ensure_future(self._listen_to_words())]
        self.hello: dict[str, Any] = {}
        self.lost = asyncio.Event()

    async def ask(self, fields: Mapping[str, Any], data: bytes, limit_s: float) -> Answer:
        """Raises what the agent says went wrong, ``LostError`` or ``asyncio.TimeoutError``."""
        if self.lost.is_set():
            raise LostError
        number = next(self._numbers)
        answered = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            self._process.write(frames.pack({**fields, "id": number}, data))
            answer, blob = await asyncio.wait_for(answered, limit_s)
        except TimeoutError:  # which is an OSError, too
            raise
        except OSError:
            raise LostError from None
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise agent_answers.error(self._place, answer["error"])
        return answer, blob

    def close(self) -> None:
        """Its input ends, and so does it."""
        self.lost.set()
        self.streams.close()
        for task in self._tasks:
            task.cancel()
        self._process.close()
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(LostError())

    def begin(self, hello: dict[str, Any]) -> None:
        self.hello = hello
        self._tasks.append(asyncio.ensure_future(self._listen()))

    async def words(self) -> str:
        """What it, or a shell before it, said for people."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait_closed(), 1.0)
        return b"".join(self._words)[-_KEPT_WORDS:].decode("utf-8", "replace").strip()

    async def read(self, size: int) -> bytes:
        return await self._process.read_exactly(size)

    async def read_frame(self) -> Answer:
        head = await self.read(frames.HEAD_SIZE)
        text, data = frames.sizes(head, frames.LARGEST_ANSWER)
        return frames.parse(await self.read(text)), await self.read(data) if data else b""

    async def ready_line(self) -> dict[str, Any]:
        """What the start says, behind whatever the login shell of that user prints."""
        read = 0
        while read < _NOISE:
            line = await self._process.read_line()
            read += len(line)
            if line.startswith(READY.encode()):
                return frames.parse(line[len(READY) :])
            if line.startswith(NONE_FOUND.encode()):
                raise _no_python(self._place, line[len(NONE_FOUND) :].decode("utf-8", "replace"))
            if not line:
                raise _not_started(self._place, await self.words())
        raise _not_started(self._place, "its shell prints without an end")

    def send(self, data: bytes) -> None:
        self._process.write(data)

    def _send(self, fields: Mapping[str, Any], data: bytes) -> None:
        with suppress(OSError):  # whoever reads there finds out
            self._process.write(frames.pack(fields, data))

    async def _listen(self) -> None:
        try:
            while True:
                self._heard(*await self.read_frame())
        except (EOFError, OSError, ValueError):
            self.close()
        except frames.FrameError as error:
            log.warning("%s: %s", self._place, error)
            self.close()

    def _heard(self, fields: dict[str, Any], data: bytes) -> None:
        reports, number = fields.get("reports"), fields.get("id")
        if "stream" in fields:
            self.streams.take(fields, data)
        elif isinstance(reports, list):
            self._take(str(fields.get("root")), reports)
        elif isinstance(number, int) and number in self._waiting:
            answered = self._waiting[number]
            if not answered.done():
                answered.set_result((fields, data))

    async def _listen_to_words(self) -> None:
        with suppress(OSError, ValueError, EOFError):
            while words := await self._process.read_words():
                self._words.append(words)


async def start(place: Place, opened: Opened, take: Take) -> Agent:
    """Installs it where it is not there in this version, and starts it."""
    try:
        return await asyncio.wait_for(_start(place, opened, take), START_S)
    except TimeoutError:
        raise _not_started(place, f"it took more than {START_S:.0f} s") from None
    except (frames.FrameError, OSError) as error:
        raise _not_started(place, str(error) or type(error).__name__) from None


async def _start(place: Place, opened: Opened, take: Take) -> Agent:
    agent = Agent(place, await opened.start(agent_bundle.command(place.python)), take)
    try:
        said = _on_linux(place, await agent.ready_line())
        if not said.get("have"):
            archive = agent_bundle.archive()
            agent.send(b"%d\n" % len(archive) + archive)
        agent.begin(await _greeting(place, agent))
    except EOFError:
        words = await agent.words()
        agent.close()
        raise _not_started(place, words or "it ended at once") from None
    except BaseException:
        agent.close()
        raise
    return agent


def _on_linux(place: Place, said: dict[str, Any]) -> dict[str, Any]:
    if said.get("platform") != "linux":
        raise _not_started(place, f"it runs {str(said.get('platform'))[:100]}, and nodes are Linux")
    return said


async def _greeting(place: Place, agent: Agent) -> dict[str, Any]:
    """The first frame; or a line that says why there is none."""
    head = await agent.read(1)
    if head == b"\n":
        raise _no_room(place, await agent.ready_line())
    head += await agent.read(frames.HEAD_SIZE - 1)
    text, data = frames.sizes(head, _LARGEST_GREETING)
    hello = frames.parse(await agent.read(text + data))
    if hello.get("protocol") != frames.PROTOCOL:
        raise _not_started(place, f"its protocol is {str(hello.get('protocol'))[:100]}")
    with agent_answers.making_sense(place):
        told = {name: agent_answers.text(hello[name]) for name in _GREETED}
        return {**told, "pid": int(hello["pid"]), "identity": hello["identity"]}


def _no_python(place: Place, found: str) -> TargetUnavailableError:
    only = " ".join(found.split()).strip(" ;")
    problem = f"{place} has no Python 3.8 or later"
    if only:
        problem += f"; found only: {only}"
    elif place.python:
        problem = f"{place}: {place.python} is no Python 3.8 or later"
    return TargetUnavailableError(
        problem,
        hint="install one there, or give the path of one as python",
        cause="python",
    )


def _no_room(place: Place, said: Mapping[str, Any]) -> TargetUnavailableError:
    full = said.get("number") in (errno.ENOSPC, errno.EDQUOT)
    hint = "make room on that disk" if full else "the user's home there must be writable"
    if said.get("number") == errno.EPERM:
        hint = "it must be the user's own: have it removed"
    return TargetUnavailableError(
        f"{place}: {str(said.get('home'))[:500]} cannot be written: {str(said.get('error'))[:500]}",
        hint=hint,
        cause="disk_full" if full else "home",
    )


def _not_started(place: Place, why: str) -> TargetUnavailableError:
    return TargetUnavailableError(
        f"nothing can be started on {place}: {why or 'its shell ended at once'}",
        hint=f"try: {place.trial}",
        cause="shell",
    )
