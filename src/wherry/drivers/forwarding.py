"""A socket here that leads to one on another machine, by the SSH connection that there is.

Not by asyncssh's own forwarding, whose socket is closed with the connection: asyncio forgets a
caller whom it accepts just then, and never lets him go.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import asyncssh

_BLOCK = 1 << 16
_LOST = (OSError, asyncssh.Error)


class Forwarding:
    """``path`` is where it listens, from the first connection on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self._connection: asyncssh.SSHClientConnection | None = None
        self._there = ""

    @property
    def lost(self) -> bool:
        return self._connection is None or self._connection.is_closed()

    async def lead(self, connection: asyncssh.SSHClientConnection, there: str) -> None:
        """From now on by this connection, to that path on the other machine."""
        self._connection, self._there = connection, there
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._carry, self._path)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A caller is let go as soon as the connection is lost."""
        assert self._connection is not None
        work = asyncio.ensure_future(self._carried(self._connection, reader, writer))
        lost = asyncio.ensure_future(self._connection.wait_closed())
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (work, lost):
                each.cancel()
            writer.close()

    async def _carried(
        self,
        connection: asyncssh.SSHClientConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        with suppress(*_LOST):
            answers, asks = await connection.open_unix_connection(self._there)
            try:
                await asyncio.gather(_pump(reader, asks), _pump(answers, writer))
            finally:
                asks.close()


async def _pump(source: Any, target: Any) -> None:
    while piece := await source.read(_BLOCK):
        target.write(piece)
        await target.drain()
    target.write_eof()
