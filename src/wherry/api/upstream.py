"""One request to a program behind a unix socket, and its answer, piece by piece.

Each has a connection of its own: none is ever shared by two callers, and what one of them leaves
unsaid cannot become the beginning of another's.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httptools

from . import limits

Headers = list[tuple[bytes, bytes]]

_PIECE = 1 << 17
_CONNECT_S = 10.0
_PAUSE_S = 0.02
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


class NotThereError(Exception):
    """Nothing answers: nobody listens, or the connection ended before an answer began."""


class BrokenAnswerError(Exception):
    """What came is not HTTP, or less than was announced."""


class Upstream:
    """A connection. ``status`` and ``headers`` are there after ``head``.

    A bare socket: who does not take all of a request may have answered it, and a transport that
    fails to write drops what it could still read.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._whole = False
        self._begun = False
        self._read = 0
        self.status = 0
        self.headers: Headers = []
        self.switched = False

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def head(self) -> None:
        """Of the answer; those that only announce one are passed over."""
        while not self._begun:
            data = await self._receive()
            if not data:
                raise BrokenAnswerError if self._read else NotThereError
            self._read += len(data)
            if self._read > limits.MAX_HEAD_BYTES + _PIECE:
                raise BrokenAnswerError
            self._feed(data)

    async def body(self) -> AsyncIterator[bytes]:
        """To its end."""
        while True:
            pieces, self._body = self._body, []
            for piece in pieces:
                yield piece
            if self._whole:
                return
            data = await self._receive()
            if not data:
                self._end()
                return
            self._feed(data)

    async def read(self) -> bytes:
        """What comes after a change of protocols; empty at the end."""
        left, self._body = b"".join(self._body), []
        return left or await self._receive()

    async def _receive(self) -> bytes:
        try:
            return await self._loop.sock_recv(self._socket, _PIECE)
        except OSError:
            return b""

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._body = [data[upgrade.args[0] :]]
            self.switched = self._begun = True
        except httptools.HttpParserError:
            if not self._whole:  # else it is more than belongs to the answer
                raise BrokenAnswerError from None

    def _end(self) -> None:
        """The connection's end is the body's, where nothing else says how long it is."""
        names = {name for name, _ in self.headers}
        if names & {b"content-length", b"transfer-encoding"}:
            raise BrokenAnswerError

    def on_message_begin(self) -> None:
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BrokenAnswerError
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._begun = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._whole = self._begun


@asynccontextmanager
async def connected(path: str) -> AsyncIterator[Upstream]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        try:
            await asyncio.wait_for(_connect(connection, path), _CONNECT_S)
        except (OSError, TimeoutError):
            raise NotThereError from None
        yield Upstream(connection)


async def _connect(connection: socket.socket, path: str) -> None:
    """At once; or, where many wait there to be taken, as soon as one more may."""
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            await asyncio.sleep(_PAUSE_S)


def request(method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head of one."""
    lines = [b"%s %s HTTP/1.1" % (method.encode("ascii"), target)]
    lines += [b"%s: %s" % each for each in headers]
    return b"\r\n".join([*lines, b"", b""])
