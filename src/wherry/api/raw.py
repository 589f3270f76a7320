"""A client's connection after it became a websocket: bytes both ways, and a word at the end."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.flow_control import FlowControl

from .websocket_edges import GOING_AWAY, Edges

_PIECE = 1 << 18
_PROBE_AFTER_S = 60


class Raw:
    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._arrived = asyncio.StreamReader(limit=_PIECE)
        self._arrived.set_transport(transport)
        self._said = Edges()
        _notice_the_dead(transport.get_extra_info("socket"))

    def feed(self, data: bytes) -> None:
        self._arrived.feed_data(data)

    def end(self) -> None:
        self._arrived.feed_eof()

    async def read(self) -> bytes:
        """Empty at the end."""
        return await self._arrived.read(_PIECE)

    async def send(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise BrokenPipeError("the client is gone")
        self._said.feed(data)
        self._transport.write(data)
        if self._flow.write_paused:
            await self._flow.drain()

    def close(self) -> None:
        """When all was sent."""
        self._transport.close()

    def leave(self) -> None:
        """The server stops, and says so where it does not interrupt anything."""
        if self._said.between and not self._transport.is_closing():
            self._transport.write(GOING_AWAY)
        self._transport.close()


def _notice_the_dead(connection: socket.socket | None) -> None:
    """Nothing else would tell that a client has vanished while neither side says anything."""
    if connection is not None and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER_S)
