"""A program that stands in for JupyterLab: HTTP and websockets on a unix socket, good and bad."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 60
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Asked(NamedTuple):
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for each, value in self.headers if each == name]
        assert len(found) < 2, (name, found)
        return found[0] if found else None


class StandIn:
    """What it was asked is in ``asked``; ``released`` lets go of who is kept waiting."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.asked: list[Asked] = []
        self.open = 0
        self.more = ""  # of the head of an answer to "said"
        self.released = threading.Event()
        self._counting = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)

    def start(self) -> None:
        self._listener.bind(self.path)
        self._listener.listen(5)
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self.released.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._counting:
            self.open += 1
        with connection, suppress(OSError, ValueError):
            connection.settimeout(PATIENCE_S)
            stream = connection.makefile("rb")
            method, target, _ = stream.readline().decode().split()
            headers = []
            while (line := stream.readline().decode("latin-1").strip()) != "":
                name, _, value = line.partition(":")
                headers.append((name.lower(), value.strip()))
            self._answer(connection, stream, Asked(method, target, headers, b""))
        with self._counting:
            self.open -= 1

    def _answer(self, connection: socket.socket, stream: object, asked: Asked) -> None:
        what = asked.target.partition("?")[0].rpartition("/")[2]
        if what == "early":
            _reply(connection, b"too much", status="413 Too Much")
            return
        body = _body(stream, asked)
        self.asked.append(asked._replace(body=body))
        if asked.header("upgrade") == "websocket":
            _websocket(connection, stream, asked)
            if what == "deaf":
                self.released.wait(PATIENCE_S)
        elif what == "said":
            _reply(connection, b"", more=self.more)
        elif what == "big":
            _big(connection, int(asked.target.partition("=")[2]))
        elif what in _BAD:
            _BAD[what](connection)
            if what in ("hangs", "stalls"):
                self.released.wait(PATIENCE_S)
        elif what == "cookies":
            found = "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nService-Worker-Allowed: /\r\n"
            _reply(connection, b"", more=found)
        elif what == "unchanged":
            connection.sendall(b"HTTP/1.1 304 Not Modified\r\nEtag: x\r\nContent-Length: 5\r\n\r\n")
        elif what == "pieces":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.sendall(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        elif what == "unmeasured":
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nto the end")
        else:
            said = {"method": asked.method, "target": asked.target, "size": len(body)}
            said["sha256"] = hashlib.sha256(body).hexdigest()
            _reply(connection, b"" if asked.method == "HEAD" else json.dumps(said).encode())


def _body(stream: object, asked: Asked) -> bytes:
    read: Callable[[int], bytes] = stream.read  # type: ignore[attr-defined]
    line: Callable[[], bytes] = stream.readline  # type: ignore[attr-defined]
    if asked.header("transfer-encoding") == "chunked":
        pieces = []
        while size := int(line(), 16):
            pieces.append(read(size))
            line()
        line()
        return b"".join(pieces)
    return read(int(asked.header("content-length") or 0))


def _reply(connection: socket.socket, body: bytes, status: str = "200 OK", more: str = "") -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nServer: stand-in\r\n{more}\r\n"
    connection.sendall(head.encode() + body)


def _big(connection: socket.socket, megabytes: int) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {megabytes << 20}\r\n\r\n"
    connection.sendall(head.encode())
    for _ in range(megabytes):
        connection.sendall(b"x" * (1 << 20))


_BAD: dict[str, Callable[[socket.socket], None]] = {
    "hangs": lambda connection: None,
    "closes": lambda connection: None,
    "garbage": lambda connection: connection.sendall(b"\x00\xffwhat?\r\n\r\n"),
    "smuggles": lambda connection: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "lengthy": lambda connection: connection.sendall(
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n"
    ),
    "short": lambda connection: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour"
    ),
    "stalls": lambda connection: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour"
    ),
    "more": lambda connection: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfourHTTP/1.1 200 OK\r\n\r\n"
    ),
    "odd": lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n"),
    "switches": lambda connection: connection.sendall(
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    ),
}


def _websocket(connection: socket.socket, stream: object, asked: Asked) -> None:
    """Says back what it hears, byte by byte."""
    key = (asked.header("sec-websocket-key") or "").encode()
    accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()
    chosen = (asked.header("sec-websocket-protocol") or "").split(",")[0]
    more = f"Sec-WebSocket-Protocol: {chosen}\r\n" if chosen else ""
    greeting = "" if asked.target.endswith("quiet") else "hello"
    connection.sendall(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n{more}\r\n{greeting}".encode()
    )
    if asked.target.endswith("deaf"):
        return
    while data := stream.read1(1 << 16):  # type: ignore[attr-defined]
        connection.sendall(data)


@contextmanager
def standing_in(path: Path) -> Iterator[StandIn]:
    program = StandIn(path)
    program.start()
    yield program
    program.stop()
