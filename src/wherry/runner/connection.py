"""One keep-alive HTTP/1.1 connection: as much of the protocol as the server speaks."""

from __future__ import annotations

from .light import TYPE_CHECKING, socket
from .peers import is_strange

if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, Tuple

_BLOCK = 1 << 16
_MAX_LINE = 1 << 16


class NetworkError(Exception):
    """The exchange did not come to its end; nothing is known of what it did."""


class Connection:
    """Opened by the first request. After a ``NetworkError`` it is of no more use.

    Through a ``tunnel`` nothing is said to programs of other users.
    """

    def __init__(self, url: str, timeout_s: float = 60.0, *, tunnel: bool = False) -> None:
        self._scheme, self._host, self._port, self._base = split_url(url)
        self._timeout_s = timeout_s
        self._tunnel = tunnel
        self._socket: Any = None
        self._buffer = b""
        self.used = False
        self.broken = False

    def request(
        self, method: str, path: str, headers: str, body: bytes = b"", stream: Iterable[bytes] = ()
    ) -> Response:
        """Send ``body``, then ``stream``; ``headers`` are whole lines and count both."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        line = f"{method} {self._base}{path} HTTP/1.1"
        head = f"{line}\r\nHost: {host}:{self._port}\r\n{headers}\r\n"
        try:
            self._send(head.encode("latin-1"), body, stream)
            response = self._response()
        except OSError as error:
            raise NetworkError(str(error) or type(error).__name__) from None
        self.used = True
        return response

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def read(self, count: int) -> bytes:
        """Exactly ``count`` bytes."""
        parts = []
        while count:
            part = self._take(count)
            count -= len(part)
            parts.append(part)
        return b"".join(parts)

    def read_some(self, limit: int) -> bytes:
        """At least one byte."""
        return self._take(limit)

    def read_line(self) -> bytes:
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MAX_LINE:
                raise NetworkError("the answer is not HTTP")
            self._buffer += self._receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r")

    def _send(self, head: bytes, body: bytes, stream: Iterable[bytes]) -> None:
        if self._socket is None:
            self._socket = self._open()
        try:
            if len(body) <= _BLOCK:
                self._socket.sendall(head + body)
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
            for piece in stream:
                self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body answers and hangs up; that answer is worth reading.
            self.broken = True

    def _open(self) -> Any:
        problem: OSError = OSError(f"{self._host} has no address")
        plain = self._host.isascii()  # as text it would go through a codec that is slow to import
        host = self._host.encode() if plain else self._host
        found = socket.getaddrinfo(host, self._port, 0, socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            opened = socket.socket(family, kind, protocol)
            try:
                opened.settimeout(self._timeout_s)
                opened.connect(address)
                self._check(opened)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                opened.close()
                problem = error
            else:
                return self._secured(opened) if self._scheme == "https" else opened
        raise problem

    def _check(self, opened: Any) -> None:
        if self._tunnel and is_strange(opened):
            raise OSError("a program of another user answers at its address")

    def _secured(self, opened: Any) -> Any:
        import socket as public
        import ssl

        plain = public.socket(fileno=opened.detach())
        plain.settimeout(self._timeout_s)
        return ssl.create_default_context().wrap_socket(plain, server_hostname=self._host)

    def _response(self) -> Response:
        status = 100
        while 100 <= status < 200:
            status = _status(self.read_line())
            headers: Dict[str, str] = {}
            while True:
                line = self.read_line()
                if not line:
                    break
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
        return Response(self, status, headers)

    def _take(self, limit: int) -> bytes:
        if not self._buffer:
            self._buffer = self._receive()
        taken, self._buffer = self._buffer[:limit], self._buffer[limit:]
        return taken

    def _receive(self) -> bytes:
        try:
            received = self._socket.recv(_BLOCK)
        except OSError as error:
            raise NetworkError(str(error) or type(error).__name__) from None
        if not received:
            raise NetworkError("the connection was closed")
        return bytes(received)


class Response:
    """A status, headers, and a body that must be read to its end before the next request."""

    def __init__(self, connection: Connection, status: int, headers: Dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection

    @property
    def keeps_alive(self) -> bool:
        bounded = "content-length" in self.headers or "transfer-encoding" in self.headers
        wanted = self.headers.get("connection", "").lower() != "close"
        return wanted and (bounded or self.status == 204) and not self._connection.broken

    def body(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        if self.status in (204, 304):
            return
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            yield from self._chunks()
            return
        left = _number(self.headers.get("content-length", "0"), 10)
        while left:
            piece = self._connection.read_some(left)
            left -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while True:
            left = _number(self._connection.read_line().decode("latin-1").partition(";")[0], 16)
            if not left:
                while self._connection.read_line():
                    pass
                return
            while left:
                piece = self._connection.read_some(left)
                left -= len(piece)
                yield piece
            self._connection.read_line()


def split_url(url: str) -> Tuple[str, str, int, str]:
    """``http://host:port/base``: its scheme, host, port and base path."""
    scheme, found, rest = url.partition("://")
    if not found or scheme not in ("http", "https"):
        raise ValueError(f"{url!r} is not an address: write it like http://host:port")
    place, _, base = rest.partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = place, ""
    default = 443 if scheme == "https" else 80
    base = f"/{base.strip('/')}" if base.strip("/") else ""
    return scheme, host.strip("[]"), int(port) if port else default, base


def _status(line: bytes) -> int:
    parts = line.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
        raise NetworkError("the answer is not HTTP")
    return int(parts[1])


def _number(text: str, base: int) -> int:
    try:
        return int(text.strip(), base)
    except ValueError:
        raise NetworkError("the answer is not HTTP") from None
