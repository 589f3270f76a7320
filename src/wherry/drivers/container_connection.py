"""The way into a container: commands that its engine starts there, with input and output."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from urllib.parse import urlsplit

from wherry.containers import certificates
from wherry.containers.engine import Engine
from wherry.containers.error import ContainerError, EngineError
from wherry.core.errors import TargetUnavailableError

from .base import NODE_GONE
from .container_place import ContainerPlace
from .places import CONNECT_S, RefusedError

_NOT_THERE = 404
_HEAD = 8
_OUTPUT = 1
_ACCEPTED = (b"101", b"200")

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Opened:
    """Nothing is kept open but what was started."""

    def __init__(self, place: ContainerPlace) -> None:
        self._place = place
        self._processes: list[_Process] = []

    async def start(self, command: str) -> _Process:
        place = self._place
        wanted = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": ["/bin/sh", "-c", command],
        }
        engine = Engine(place.engine)
        path = f"/containers/{place.name}/exec"
        try:
            made = await asyncio.to_thread(engine.call, "POST", path, wanted)
        except (ContainerError, EngineError) as error:
            raise _unavailable(place, error) from None
        ends = await asyncio.wait_for(_attached(place, str(made["Id"])), CONNECT_S)
        self._processes.append(_Process(ends))
        return self._processes[-1]

    async def forward(self, port: int, address: str, to: int) -> int:
        raise RefusedError("an engine forwards no ports from within a container")

    async def close(self) -> None:
        for process in self._processes:
            process.close()


async def connect(place: ContainerPlace) -> Opened:
    """Looks whether it is there and runs. It starts nothing: it may be on its way out."""
    try:
        engine = Engine(place.engine)
        seen = await asyncio.to_thread(engine.call, "GET", f"/containers/{place.name}/json")
    except (ContainerError, EngineError) as error:
        raise _unavailable(place, error) from None
    if not seen["State"]["Running"]:
        raise TargetUnavailableError(
            f"{place} has stopped",
            hint="its node is made again where runs wait for it",
            cause=NODE_GONE,
            stopped=seen["State"]["Status"] == "exited",
        )
    return Opened(place)


class _Process:
    """As ``places.Process``. The engine sends output and words in one stream, in marked pieces."""

    def __init__(self, ends: Ends) -> None:
        self._reader, self._writer = ends
        self._output = asyncio.StreamReader()
        self._words = asyncio.StreamReader()
        self._sorting = asyncio.ensure_future(self._sort())

    def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise BrokenPipeError("the engine has hung up")
        self._writer.write(data)

    async def read_exactly(self, size: int) -> bytes:
        return await self._output.readexactly(size)

    async def read_line(self) -> bytes:
        return await self._output.readline()

    async def read_words(self) -> bytes:
        return await self._words.read(4096)

    def close(self) -> None:
        self._sorting.cancel()
        self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(asyncio.CancelledError, OSError):
            await self._sorting

    async def _sort(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(_HEAD)
                piece = await self._reader.readexactly(int.from_bytes(head[4:], "big"))
                (self._output if head[0] == _OUTPUT else self._words).feed_data(piece)
        except (EOFError, OSError):
            pass
        finally:
            self._output.feed_eof()
            self._words.feed_eof()


async def _attached(place: ContainerPlace, exec_id: str) -> Ends:
    """The connection of the request becomes the command's input and output."""
    reader, writer = await _dialled(place)
    body = json.dumps({"Detach": False, "Tty": False}).encode()
    writer.write(
        f"POST /exec/{exec_id}/start HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (EOFError, OSError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise _unavailable(place, error) from None
    if head.split(b" ", 2)[1] not in _ACCEPTED:
        writer.close()
        said = head.split(b"\r\n", 1)[0].decode("utf-8", "replace")
        raise _unavailable(place, ContainerError(said))
    return reader, writer


async def _dialled(place: ContainerPlace) -> Ends:
    where = urlsplit(place.engine)
    try:
        if where.scheme == "unix":
            return await asyncio.open_unix_connection(where.path)
        host, port, trust = certificates.dialled(place.engine)
        return await asyncio.open_connection(host, port, ssl=trust)
    except OSError as error:
        raise _unavailable(place, error) from None


def _unavailable(place: ContainerPlace, error: Exception) -> TargetUnavailableError:
    if isinstance(error, EngineError) and error.status == _NOT_THERE:
        return TargetUnavailableError(
            f"{place} is gone: somebody has removed it",
            hint="its node is made again where runs wait for it",
            cause=NODE_GONE,
        )
    return TargetUnavailableError(f"{place}: {error}", cause="engine")
