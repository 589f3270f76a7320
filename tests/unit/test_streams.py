"""Connections through an agent's pipes: whole, both ways, bounded, and gone when they end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from wherry.drivers import frames
from wherry.drivers.agent_streams import AgentStreams
from wherry.drivers.streams import WINDOW, Streams

Take = Callable[[Mapping[str, Any], bytes], object]


class Pipe:
    """Frames from one side to the other, with a thread that hands them over."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._writing = threading.Lock()

    def send(self, fields: Mapping[str, Any], data: bytes = b"") -> None:
        frame = memoryview(frames.pack(fields, data))
        with self._writing:
            while frame:
                frame = frame[os.write(self._writer, frame) :]

    def to(self, take: Take) -> None:
        threading.Thread(target=self._pump, args=(take,), daemon=True).start()

    def _pump(self, take: Take) -> None:
        with os.fdopen(self._reader, "rb") as stream, suppress(Exception):
            while True:
                take(*frames.read(stream.read))

    def close(self) -> None:
        os.close(self._writer)


class Ends:
    def __init__(self, node: Streams, server: AgentStreams) -> None:
        self.node = node
        self.server = server

    async def quiet(self) -> None:
        """Nothing is left of any connection."""
        while self.node._streams or self.server._streams:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def joined() -> AsyncIterator[Ends]:
    loop = asyncio.get_running_loop()
    up, down = Pipe(), Pipe()
    node, server = Streams(up.send), AgentStreams(down.send)
    up.to(lambda fields, data: loop.call_soon_threadsafe(server.take, fields, data))
    down.to(node.take)
    yield Ends(node, server)
    server.close()
    node.close()
    up.close()
    down.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
    writer.close()


async def there_and_back(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes
) -> bytes:
    async def say() -> None:
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    saying = asyncio.ensure_future(say())
    answer = await reader.read(-1)
    await saying
    writer.close()
    return answer


async def echoing() -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    return server, int(server.sockets[0].getsockname()[1])


async def to_the_server() -> None:
    server, port = await echoing()
    async with server, joined() as ends:
        ends.server.server = "127.0.0.1", port
        there = ends.node.listen(0)
        assert ends.node.listen(0) == there
        said = [os.urandom(1 << 16) * 50 for _ in range(3)]
        answers = await asyncio.gather(
            *[
                there_and_back(*await asyncio.open_connection("127.0.0.1", there), data)
                for data in said
            ]
        )
        assert answers == said
        await ends.quiet()


def test_a_port_of_the_node_leads_to_the_server() -> None:
    asyncio.run(asyncio.wait_for(to_the_server(), 60))


async def to_the_node(path: str) -> None:
    server, port = await echoing()
    async with server, joined() as ends:

        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ends.server.lead({"port": port}, (reader, writer))

        async with await asyncio.start_unix_server(lead, path):
            data = os.urandom(1 << 16) * 50
            assert await there_and_back(*await asyncio.open_unix_connection(path), data) == data
            await ends.quiet()


def test_a_path_of_the_server_leads_to_a_port_of_the_node(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(to_the_node(str(tmp_path / "s")), 60))


async def heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    try:
        return await reader.read()
    finally:
        writer.close()


async def to_nothing(path: str) -> None:
    server, port = await echoing()
    server.close()
    await server.wait_closed()
    async with joined() as ends:
        ends.server.server = "127.0.0.1", port
        assert await heard(*await asyncio.open_connection("127.0.0.1", ends.node.listen(0))) == b""

        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ends.server.lead({"port": port}, (reader, writer))

        async with await asyncio.start_unix_server(lead, path):
            assert await heard(*await asyncio.open_unix_connection(path)) == b""
        await ends.quiet()


def test_where_nothing_listens_the_connection_ends(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(to_nothing(str(tmp_path / "s")), 60))


async def to_a_slow_one() -> None:
    arrived = asyncio.Event()

    async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await arrived.wait()
        writer.close()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024)
    async with server, joined() as ends:
        ends.server.server = "127.0.0.1", int(server.sockets[0].getsockname()[1])
        _, writer = await asyncio.open_connection("127.0.0.1", ends.node.listen(0))
        writer.write(b"x" * (64 << 20))
        await asyncio.sleep(0.3)
        (stream,) = ends.server._streams.values()
        waiting = stream._arrived._queue  # type: ignore[attr-defined]
        assert sum(map(len, waiting)) <= WINDOW
        arrived.set()
        await ends.quiet()
        writer.transport.abort()


def test_what_nobody_reads_is_not_heaped_up() -> None:
    asyncio.run(asyncio.wait_for(to_a_slow_one(), 60))
