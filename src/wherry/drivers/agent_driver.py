"""Runs attempts on another machine through an agent there, as the local driver does on this one."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

from wherry.core.errors import TargetUnavailableError
from wherry.core.lifecycle import Observation
from wherry.core.resources import Resources

from . import agent_answers, agent_bundle, agent_lines
from .agent_talk import START_S, Answer
from .base import Handle, Health, Launch, Reach
from .dialled import Dialled
from .local import rendered
from .places import CONNECT_S, Connect, Place

T = TypeVar("T")

ROOT = f"{agent_bundle.HOME}/attempts"
_OPEN_S = 2 * (CONNECT_S + START_S)
_ANSWER_S = 30.0
_START_S = 60.0
_REFUSAL_S = 5.0
_MOST_HANDED_OVER = 1 << 26


class AgentDriver:
    """``connect`` leads to the place, ``root`` is the folder there that holds the attempts, and
    ``server`` the address of this server as seen from here. All drivers of this process share one
    connection to a place.

    ``cpus``, ``memory_bytes`` and ``gpus`` say what the machine has instead of what is found there.
    """

    def __init__(
        self,
        place: Place,
        connect: Connect,
        root: str = ROOT,
        server: str = "",
        *,
        cpus: float | None = None,
        memory_bytes: int | None = None,
        gpus: int | None = None,
    ) -> None:
        self._place = place
        self._root = root
        self._limits = {"cpus": cpus, "memory_bytes": memory_bytes, "gpus": gpus}
        lines = agent_lines.lines
        self._loop = lines.loop
        self._shared = lines.hold(place, server, connect)
        self._close = weakref.finalize(self, lines.let_go, place, server)
        self._close.atexit = False
        self._dialled = Dialled(self._shared.line)
        self._hang_up = weakref.finalize(self, _hang_up, lines.loop, self._dialled)
        self._hang_up.atexit = False
        self._inbox: _Inbox | None = None

    def check(self) -> Health:
        answer, _ = self._ask("check")
        with agent_answers.making_sense(self._place):
            return Health(agent_answers.nodes(answer), agent_answers.text(answer["version"]))

    def refuse(self, resources: Resources, interpreter: str | None) -> str | None:
        """A machine that cannot be asked now may well take it later."""
        if not self._shared.line.connected:
            return None
        fields = {"resources": dict(resources.__dict__), "interpreter": interpreter}
        try:
            answer, _ = self._ask("refuse", fields, limit_s=_REFUSAL_S)
            with agent_answers.making_sense(self._place):
                refusal = agent_answers.text(answer["refusal"] or "")
        except TargetUnavailableError:
            return None
        return refusal.replace("this machine", str(self._place)) or None

    def reach(self, node: str = "") -> Reach:
        link, file = self._do(self._shared.line.server_file(self._root))
        return Reach(str(link.way), file, str(link.agent.hello["python"]))

    def dial(self, path: str, node: str = "") -> str:
        return self._do(self._dialled.open(path))

    def render(self, launch: Launch) -> str:
        return rendered(launch, f"{self._root}/{launch.attempt_id}", str(self._place))

    def submit(self, launch: Launch) -> Handle:
        answer = self._ask_to_start("submit", launch)
        with agent_answers.making_sense(self._place):
            return Handle(agent_answers.text(answer["handle"]))

    def rescue(self, launch: Launch) -> bool:
        return self._ask_to_start("rescue", launch).get("rescued") is True

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        if not handles:
            return {}
        answer, _ = self._ask("observe", {"handles": list(handles)})
        with agent_answers.making_sense(self._place):
            seen = agent_answers.observations(answer, len(handles))
        return dict(zip(handles, seen, strict=True))

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        self._ask("cancel", {"handle": handle, "force": force})

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        asked = {"handle": handle, "offset": offset, "limit": limit}
        return self._ask("read_log", asked)[1][:limit]

    def release(self, handle: Handle) -> None:
        self._ask("release", {"handle": handle}, limit_s=_START_S)

    def house(self, home: str) -> str:
        """The folder of a home there, made unless it is there already."""
        answer, _ = self._ask("house", {"home": home})
        with agent_answers.making_sense(self._place):
            return agent_answers.text(answer["path"])

    def forget(self, home: str) -> None:
        """Remove that folder and all that lies in it."""
        self._ask("forget", {"home": home}, limit_s=_START_S)

    def inbox(self) -> int:
        if self._inbox is None:
            self._inbox = _Inbox()
            self._shared.takers.setdefault(self._root, WeakSet()).add(self._inbox)
        return self._inbox.reader

    def reports(self) -> Sequence[Mapping[str, Any]]:
        return self._inbox.take() if self._inbox is not None else []

    def close(self) -> None:
        """The connection, if nobody else has use for it; attempts go on."""
        self._close()
        self._hang_up()

    def _ask_to_start(self, what: str, launch: Launch) -> dict[str, Any]:
        """The program travels once, whatever the number of attempts that it starts."""
        contents = {_digest(content): content for content in launch.program.values()}
        fields, data = {"launch": _fields(launch)}, b"".join(launch.files.values())
        answer, _ = self._ask(what, fields, data, _START_S)
        missing = [each for each in contents if each in str(answer.get("missing"))]
        for digest in missing:
            self._ask("put", {"digest": digest}, contents[digest], _START_S)
        if missing:
            answer, _ = self._ask(what, fields, data, _START_S)
        return answer

    def _ask(
        self,
        what: str,
        fields: Mapping[str, Any] | None = None,
        data: bytes = b"",
        limit_s: float = _ANSWER_S,
    ) -> Answer:
        request = {"do": what, "root": self._root, "limits": self._limits, **(fields or {})}
        return self._do(self._shared.line.ask(request, data, limit_s), limit_s)

    def _do(self, work: Coroutine[Any, Any, T], limit_s: float = _ANSWER_S) -> T:
        if not self._close.alive:
            work.close()
            raise TargetUnavailableError(f"the connection to {self._place} was closed")
        return self._loop.run(work, limit_s * 2 + _OPEN_S)


class _Inbox:
    """What came over the line, and a descriptor that can be read when there is something."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._reports: list[Mapping[str, Any]] = []
        self._size = 0
        self._changing = threading.Lock()
        weakref.finalize(self, _close, self.reader, self._writer)

    def put(self, reports: list[Mapping[str, Any]]) -> None:
        """What is too much to be kept is found by looking."""
        size = len(repr(reports))
        with self._changing:
            if self._size + size > _MOST_HANDED_OVER:
                return
            self._size += size
            self._reports += reports
        with suppress(BlockingIOError):  # there is enough in it to wake anyone
            os.write(self._writer, b"+")

    def take(self) -> list[Mapping[str, Any]]:
        with suppress(BlockingIOError):
            os.read(self.reader, 4096)
        with self._changing:
            taken, self._reports, self._size = self._reports, [], 0
        return taken


def _fields(launch: Launch) -> dict[str, Any]:
    return {
        "attempt_id": launch.attempt_id,
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "resources": dict(launch.resources.__dict__),
        "files": [(name, len(content)) for name, content in launch.files.items()],
        "program": {name: _digest(content) for name, content in launch.program.items()},
        "nursery": list(launch.nursery),
        "time_limit_s": launch.time_limit_s,
    }


@lru_cache(maxsize=16)
def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hang_up(loop: agent_lines.Loop, dialled: Dialled) -> None:
    """From any thread at any time."""
    loop.leave(dialled.close())


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
