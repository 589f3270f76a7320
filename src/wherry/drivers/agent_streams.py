"""The server's end of connections that go through an agent: see ``streams``."""

from __future__ import annotations

import asyncio
import itertools
import select
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from .streams import PIECE, WINDOW

_MOST = 1000

Send = Callable[[Mapping[str, Any], bytes], None]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AgentStreams:
    """``server`` is where connections lead that programs on the node open. Lives in a loop."""

    def __init__(self, send: Send) -> None:
        self.server: tuple[str, int] | None = None
        self._send = send
        self._streams: dict[str, _Stream] = {}
        self._numbers = itertools.count(1)

    def take(self, fields: Mapping[str, Any], data: bytes) -> None:
        """What came from the node for a stream."""
        name = str(fields["stream"])
        if "open" in fields:
            if len(self._streams) >= _MOST or name in self._streams:
                self._send({"stream": name, "closed": "there are too many"}, b"")
                return
            stream = self._add(name)
            stream.go(self._to_server(stream))
        elif name in self._streams:
            self._streams[name].take(fields, data)

    async def lead(self, where: Mapping[str, Any], ends: Ends) -> None:
        """What these two ends say and hear, a program on the node hears and says."""
        stream = self._add(f"s{next(self._numbers)}")
        self._send({"stream": stream.name, "open": dict(where)}, b"")
        stream.go(stream.pump(ends))
        await stream.done.wait()
        ends[1].close()

    def close(self) -> None:
        for stream in list(self._streams.values()):
            stream.close()

    def _add(self, name: str) -> _Stream:
        stream = self._streams[name] = _Stream(name, self._send)
        stream.forget = lambda: self._streams.pop(name, None)
        return stream

    async def _to_server(self, stream: _Stream) -> None:
        if self.server is None:
            stream.refuse("there is no way to the server")
            return
        try:
            ends = await asyncio.open_connection(*self.server)
        except OSError as error:
            stream.refuse(error.strerror or str(error))
            return
        await stream.pump(ends)


class _Stream:
    def __init__(self, name: str, send: Send) -> None:
        self.name = name
        self.done = asyncio.Event()
        self.forget: Callable[[], object] = lambda: None
        self._send = send
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._may_send = WINDOW
        self._room = asyncio.Event()
        self._room.set()
        self._work: asyncio.Future[Any] | None = None

    def go(self, work: Any) -> None:
        self._work = asyncio.ensure_future(work)

    def take(self, fields: Mapping[str, Any], data: bytes) -> None:
        self._waiting += len(data)
        if self._waiting > 2 * WINDOW:
            self.refuse("more was sent than could be taken")
            return
        if data:
            self._arrived.put_nowait(data)
        more = fields.get("more")
        if isinstance(more, int):
            self._may_send = min(WINDOW, self._may_send + more)
            self._room.set()
        if fields.get("end"):
            self._arrived.put_nowait(None)
        if "closed" in fields:
            self.close()

    def refuse(self, why: str) -> None:
        self._send({"stream": self.name, "closed": why}, b"")
        self.close()

    def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._end()

    async def pump(self, ends: Ends) -> None:
        """Both ways until both have ended, or one has broken."""
        reader, writer = ends
        work = [
            asyncio.ensure_future(self._read(reader, partial(_hung_up, writer))),
            asyncio.ensure_future(self._write(writer)),
        ]
        try:
            await asyncio.gather(*work)
        except OSError as error:
            self._send({"stream": self.name, "closed": error.strerror or str(error)}, b"")
        finally:
            for each in work:
                each.cancel()
            writer.close()
            self._end()

    def _end(self) -> None:
        self.forget()
        self.done.set()

    async def _read(self, reader: asyncio.StreamReader, hung_up: Callable[[], bool]) -> None:
        while piece := await reader.read(min(PIECE, await self._allowed())):
            self._may_send -= len(piece)
            self._send({"stream": self.name}, piece)
        if hung_up():
            raise BrokenPipeError("nobody is there any more")
        self._send({"stream": self.name, "end": True}, b"")

    async def _allowed(self) -> int:
        while self._may_send <= 0:
            self._room.clear()
            await self._room.wait()
        return self._may_send

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        while (piece := await self._arrived.get()) is not None:
            writer.write(piece)
            await writer.drain()
            self._waiting -= len(piece)
            self._send({"stream": self.name, "more": len(piece)}, b"")
        with suppress(OSError):
            writer.write_eof()


def _hung_up(writer: asyncio.StreamWriter) -> bool:
    """Whether nobody listens to what would still come, which unix sockets tell."""
    ends = writer.get_extra_info("socket")
    if ends is None or ends.family != socket.AF_UNIX or ends.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(ends.fileno(), 0)
    return bool(poll.poll(0))
