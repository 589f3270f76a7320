"""Connections that cannot be held for ever, nor take more than their share.

uvicorn bounds neither the head of a request nor the time that a client takes to send or to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from http import HTTPStatus
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from wherry.core.errors import (
    ServerUnavailableError,
    TooLargeError,
    TooSlowError,
    UserErrorException,
    WherryError,
)

from . import limits, problems
from .raw import Raw
from .stamp import Headers, stamp

_HEAD, _BODY, _READER, _REST, _END = "head", "body", "reader", "rest", "end"
_PATIENCE = {
    _HEAD: limits.HEAD_S,
    _BODY: limits.BODY_S,
    _READER: limits.READER_S,
    _REST: limits.LINGER_S,
    _END: limits.LINGER_S,
}


class HeadTooLargeError(TooLargeError):
    """The head of the request is too large."""

    http_status = 431


class Connection(HttpToolsProtocol):
    """``check`` is called every second; however long the server itself stood still counts as one.

    A refusal is sent at once. The client may then read it for a while, whatever it goes on sending.
    """

    def __init__(self, *arguments: Any, stamp: Headers, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stamp = stamp
        self._refused = False
        self._running: RequestResponseCycle | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._awaited: str | None = None
        self._waited = 0
        self._progress = 0
        self._raw: Raw | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        most = limits.connections()
        if len(self.connections) >= most:
            _close_idle(self.connections)
        super().connection_made(transport)
        if len(self.connections) > most:
            sentence = f"the server has {most} connections already: try again later"
            self._refuse(ServerUnavailableError(sentence))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._raw is not None:
            self._raw.end()
        if self._running is not None:  # not ``cycle`` where requests were sent in a row
            self._running.disconnected = not self._running.response_complete
            self._running.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._raw is not None:
            self._raw.feed(data)
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > limits.MAX_HEAD_BYTES and not self._refused:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > limits.MAX_HEAD_BYTES or len(self.headers) > limits.MAX_HEADERS:
            self._refuse_head()
        elif len(self.pipeline) >= limits.MAX_PIPELINED:
            self._refuse(UserErrorException("too many requests were sent without awaiting answers"))
        if not self._refused:
            super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        cycle.scope["switch"] = partial(self._switch, cycle)  # type: ignore[typeddict-unknown-key]
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        self._body_bytes += len(body)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        if self._refused:
            return
        super().on_message_complete()
        self.cycle.more_body = False  # also if it was answered before it ended

    def send_400_response(self, msg: str) -> None:
        self._refuse(UserErrorException("this is not a request in HTTP/1.1"))

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for an upgrade."""

    def _switch(self, cycle: RequestResponseCycle, head: bytes) -> Raw:
        """Answer with this head; the rest is another protocol, and the endpoint's to speak."""
        if self._refused or self.transport.is_closing():
            raise BrokenPipeError("the client is gone")
        cycle.response_started = cycle.response_complete = True
        self._raw = Raw(self.transport, self.flow)
        self.flow.resume_reading()
        self.transport.write(head)
        return self._raw

    def shutdown(self) -> None:
        """The server stops."""
        if self._raw is not None:
            self._raw.leave()
        else:
            super().shutdown()

    def check(self) -> None:
        """One second has passed."""
        awaited, progress = self._state()
        if awaited != self._awaited or _moved(awaited, progress - self._progress):
            self._awaited, self._progress, self._waited = awaited, progress, 0
        self._waited += 1
        if awaited is None or self._waited <= _PATIENCE[awaited]:
            return
        if awaited == _BODY or (awaited == _HEAD and self._head_bytes):
            seconds = _PATIENCE[awaited]
            self._refuse(TooSlowError(f"the {awaited} of the request took more than {seconds} s"))
        else:
            self.transport.abort()

    def _state(self) -> tuple[str | None, int]:
        """What is awaited of the client, and a number that changes as it comes."""
        if self._refused or self.transport.is_closing():
            return _END, 0
        if self.flow.write_paused:
            return _READER, self.transport.get_write_buffer_size()
        if self._raw is not None:
            return None, 0
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or (cycle.response_complete and not cycle.more_body):
            return (_HEAD if self.timeout_keep_alive_task is None else None), 0
        if cycle.response_complete:
            return _REST, 0
        if cycle.more_body and not self.flow.read_paused and not cycle.waiting_for_100_continue:
            return _BODY, self._body_bytes
        return None, 0

    def _refuse_head(self) -> None:
        self._refuse(
            HeadTooLargeError(
                f"the head of the request has more than {limits.MAX_HEAD_BYTES >> 10} KiB "
                f"or {limits.MAX_HEADERS} lines"
            )
        )

    def _refuse(self, error: WherryError) -> None:
        if self._refused:
            return
        self._refused = True
        self._unset_keepalive_if_required()
        reply = problems.respond(error)
        headers = [*reply.raw_headers, *self._stamp, (b"connection", b"close")]
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
            self.flow.resume_writing()
            if self._running.response_started:
                self.transport.close()
                return
        lines = [_status_line(reply.status_code), *(b"%s: %s\r\n" % each for each in headers)]
        self.transport.write(b"".join([*lines, b"\r\n", reply.body]))
        self.flow.resume_reading()  # what is not read would reset the connection, answer and all
        if self.transport.can_write_eof():
            self.transport.write_eof()


def configured(app: FastAPI, server_id: str) -> uvicorn.Config:
    """uvicorn with these connections."""
    return uvicorn.Config(
        app,
        http=partial(Connection, stamp=stamp(server_id)),  # type: ignore[arg-type]
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.IDLE_S,
        timeout_graceful_shutdown=3,
    )


async def watch(connections: Collection[Any], every_s: float = 1.0) -> None:
    """Checks them all, again and again."""
    while True:
        await asyncio.sleep(every_s)
        for connection in list(connections):
            if isinstance(connection, Connection):
                connection.check()


def _close_idle(connections: Collection[Any]) -> None:
    """The one that has been idle for longest makes room."""
    idle = [each for each in connections if each.timeout_keep_alive_task is not None]
    if idle:
        longest = min(idle, key=lambda each: float(each.timeout_keep_alive_task.when()))
        longest.connections.discard(longest)
        longest.transport.abort()


def _moved(awaited: str | None, change: int) -> bool:
    return change >= limits.BODY_BYTES if awaited == _BODY else change != 0


def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
