"""Passes one request on to a compute instance, and its answer back, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from wherry.control.doors import Door

from . import limits, upstream
from .raw import Raw
from .upstream import BrokenAnswerError, Headers, Upstream

_HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
# Of the request: who asks was settled here, and JupyterLab compares Origin with a Host that it
# does not know. Of the answer: what would reach beyond the instance's own part of the origin.
_OURS = {
    b"authorization",
    b"content-length",
    b"cookie",
    b"expect",
    b"forwarded",
    b"host",
    b"origin",
    b"referer",
    b"x-real-ip",
    b"x-scheme",
}
_NOT_THEIRS = {
    b"clear-site-data",
    b"date",
    b"server",
    b"service-worker-allowed",
    b"strict-transport-security",
    b"x-content-type-options",
}
_WITHOUT_LENGTH = (204, 304)


_Counted = AbstractContextManager[None]


class SilentError(Exception):
    """No answer began within ``limits.ANSWER_S``."""


class Forwarding:
    """One request. ``cookie`` is the name of ours, which is nobody else's business.

    ``begun`` says that some of its body was taken, ``answered`` that an answer has begun.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, cookie: bytes) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._cookie = cookie
        self._asked = _by_name(scope["headers"])
        self._chunked = b"transfer-encoding" in self._asked
        self._passed_on = 0
        self.begun = False
        self.answered = False

    async def go(self, door: Door, more: Headers, websocket: Callable[[], _Counted]) -> None:
        """To the end of both, or until the client is gone. ``more`` goes with the answer;
        ``websocket`` is entered for as long as one is open.
        """
        async with upstream.connected(door.socket) as there:
            await _quietly(there.send(self._request(door)))
            await _first(self._listen(there), self._answer(there, more))
            if there.switched and self._scope.get("switch"):
                client: Raw = self._scope["switch"](_switching(there))
                with websocket():
                    up = _carry(client.read, partial(_patiently, there))
                    await _first(up, _carry(there.read, client.send))
                client.close()

    def _request(self, door: Door) -> bytes:
        scope, asked = self._scope, self._asked
        left_out = _HOP_BY_HOP | _OURS | _named(asked.get(b"connection", b""))
        headers = [
            each
            for each in scope["headers"]
            if each[0] not in left_out and not each[0].startswith(b"x-forwarded-")
        ]
        headers += _without(self._cookie, scope["headers"])
        headers += [(b"host", b"localhost"), (b"authorization", f"token {door.token}".encode())]
        headers += _forwarded(scope, asked)
        if is_websocket(scope):
            headers += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
        else:
            headers += [(b"connection", b"close"), *self._length()]
        target = scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        return upstream.request(scope["method"], target, headers)

    def _length(self) -> Headers:
        if self._chunked:
            return [(b"transfer-encoding", b"chunked")]
        length = self._asked.get(b"content-length")
        return [(b"content-length", length)] if length else []

    async def _listen(self, there: Upstream) -> None:
        """What the client says, until it is gone. Who refuses a body may still answer it."""
        more = True
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            if more:
                body, more = message.get("body", b""), message.get("more_body", False)
                self.begun = self.begun or bool(body)
                await _quietly(there.send(self._framed(body, last=not more)))
                self._passed_on += 1

    def _framed(self, body: bytes, *, last: bool) -> bytes:
        if not self._chunked:
            return body
        piece = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
        return piece + b"0\r\n\r\n" if last else piece

    async def _answer(self, there: Upstream, more: Headers) -> None:
        await self._begin(there)
        if there.switched:
            if not is_websocket(self._scope):
                raise BrokenAnswerError
            return
        self.answered = True
        headers = [*self._answered(there), *more]
        await self._send(
            {"type": "http.response.start", "status": there.status, "headers": headers}
        )
        if self._scope["method"] != "HEAD":
            async for piece in there.body():
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, there: Upstream) -> None:
        """The head of the answer, however long the body of the request takes."""
        head, seen = asyncio.ensure_future(there.head()), -1
        try:
            while not (await asyncio.wait({head}, timeout=limits.ANSWER_S))[0]:
                if seen == self._passed_on:
                    raise SilentError
                seen = self._passed_on
            head.result()
        finally:
            head.cancel()

    def _answered(self, there: Upstream) -> Headers:
        said = _by_name(there.headers)
        left_out = _HOP_BY_HOP | _NOT_THEIRS | _named(said.get(b"connection", b""))
        if there.status in _WITHOUT_LENGTH:
            left_out = left_out | {b"content-length"}
        headers = [
            (name, value)
            for name, value in there.headers
            if name not in left_out
            and not (name == b"set-cookie" and value.partition(b"=")[0].strip() == self._cookie)
        ]
        if b"referrer-policy" not in said:
            headers.append((b"referrer-policy", b"same-origin"))
        return headers


def is_websocket(scope: Scope) -> bool:
    asked = _by_name(scope["headers"])
    return (
        scope["method"] == "GET"
        and scope["http_version"] == "1.1"
        and asked.get(b"upgrade", b"").lower() == b"websocket"
        and b"upgrade" in _named(asked.get(b"connection", b""))
    )


def _by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return {name: value for name, value in headers}


def _named(connection: bytes) -> set[bytes]:
    """The headers that are about the connection alone."""
    return {name.strip().lower() for name in connection.split(b",")}


def _without(cookie: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The cookies that are JupyterLab's own."""
    found = [
        piece.strip()
        for name, value in headers
        if name == b"cookie"
        for piece in value.split(b";")
        if piece.strip() and piece.partition(b"=")[0].strip() != cookie
    ]
    return [(b"cookie", b"; ".join(found))] if found else []


def _forwarded(scope: Scope, asked: dict[bytes, bytes]) -> Headers:
    """Whom, and under which name, the browser has asked."""
    found = [(b"x-forwarded-proto", scheme_of(scope).encode())]
    if asked.get(b"host"):
        found.append((b"x-forwarded-host", asked[b"host"]))
    if scope.get("client"):
        found.append((b"x-forwarded-for", str(scope["client"][0]).encode()))
    return found


def scheme_of(scope: Scope) -> str:
    """As the browser sees it: another server before this one may speak TLS."""
    asked = _by_name(scope["headers"]).get(b"x-forwarded-proto", b"")
    return "https" if asked.lower() == b"https" else str(scope["scheme"])


def _switching(there: Upstream) -> bytes:
    kept = [each for each in there.headers if each[0].startswith(b"sec-websocket-")]
    lines = [b"connection: Upgrade", b"upgrade: websocket", *(b"%s: %s" % each for each in kept)]
    return b"\r\n".join([b"HTTP/1.1 101 Switching Protocols", *lines, b"", b""])


async def _carry(
    read: Callable[[], Awaitable[bytes]], send: Callable[[bytes], Awaitable[None]]
) -> None:
    with suppress(OSError):
        while piece := await read():
            await send(piece)


async def _patiently(there: Upstream, data: bytes) -> None:
    """Where nothing is taken for so long: while data waits, nobody sees that its sender is gone."""
    async with asyncio.timeout(limits.READER_S):
        await there.send(data)


async def _first(*work: Coroutine[Any, Any, None]) -> None:
    """Until one is done; the others are given up. Raises what that one met."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _quietly(sending: Coroutine[Any, Any, None]) -> None:
    """What could not be sent is told by who waits for an answer."""
    with suppress(OSError):
        await sending
