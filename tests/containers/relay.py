"""A socket between a runner and its engine, at which the runner can be made to die.

What it had asked for reaches the engine all the same: an engine carries out requests of the dead.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Hook = Callable[[str, str], None]


@contextmanager
def relaying(path: Path, upstream: str, hook: Hook) -> Iterator[str]:
    """``hook`` gets the request line of each, ``before`` it goes on and ``after`` its answer."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=_carry, args=(client, upstream, hook), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"unix://{path}"
    finally:
        server.close()


def _carry(client: socket.socket, upstream: str, hook: Hook) -> None:
    with client, socket.socket(socket.AF_UNIX) as engine:
        asked = _request(client)
        line = asked.split(b"\r\n")[0].decode()
        hook(line, "before")
        engine.connect(upstream.removeprefix("unix://"))
        engine.sendall(asked)
        threading.Thread(target=_pump, args=(client, engine), daemon=True).start()
        answer = engine.recv(65536)
        hook(line, "after")
        with suppress(OSError):
            client.sendall(answer)
        _pump(engine, client)


def _request(client: socket.socket) -> bytes:
    """Its head, and as much of its body as the head promises."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(each.split(b":")[1]) for each in head.split(b"\r\n")
                   if each.lower().startswith(b"content-length")), 0)  # fmt: skip
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
