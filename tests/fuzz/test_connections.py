"""Clients that send too much, too slowly, or never read: each is told, and none holds up others."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.homes import wait_until
from tests.planes import TOKEN, make_plane
from wherry.api import limits
from wherry.api.app import create_app
from wherry.api.connections import configured, watch
from wherry.control import files
from wherry.control.plane import Plane
from wherry.control.submit import start_interactive
from wherry.drivers.memory import MemoryDriver

AUTHORIZED = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
QUICK = 0.02  # seconds that count as one


class Server:
    """A server in a thread whose clock of patience runs fifty times as fast."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.server = uvicorn.Server(configured(create_app(plane, reconcile=False), "id"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        watching = asyncio.create_task(watch(self.server.server_state.connections, QUICK))
        await self.server.serve(sockets=[self.listener])
        watching.cancel()

    def __enter__(self) -> Server:
        self._thread.start()
        wait_until(lambda: self.server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join()

    @property
    def protocols(self) -> list[Any]:
        return list(self.server.server_state.connections)

    @property
    def connections(self) -> int:
        return len(self.protocols)

    def connect(self, text: str | bytes = b"") -> socket.socket:
        client = socket.create_connection(self.listener.getsockname(), timeout=60)
        client.sendall(text.encode() if isinstance(text, str) else text)
        return client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    with Server(plane) as server:
        yield server


def answer(client: socket.socket) -> tuple[int, dict[str, Any]]:
    """The status and the problem, read to the end of the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"wherry-api: " in head, received
    return int(head.split()[1]), json.loads(body)


def alive(server: Server) -> None:
    """Another client is answered."""
    with server.connect(
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    ) as other:
        assert answer(other)[0] == 200


def told(client: socket.socket, status: int, *words: str) -> None:
    with client:
        found, problem = answer(client)
    assert found == status == problem["status"], problem
    for word in words:
        assert word in problem["detail"]


def test_a_head_has_a_size(server: Server) -> None:
    one = server.connect(f"GET / HTTP/1.1\r\n{AUTHORIZED}X: " + "x" * limits.MAX_HEAD_BYTES)
    told(one, 431, "64 KiB")
    many = "".join(f"X-{n}: x\r\n" for n in range(limits.MAX_HEADERS))
    told(server.connect(f"GET / HTTP/1.1\r\n{AUTHORIZED}{many}\r\n"), 431, "100 lines")
    told(server.connect("GET /" + "a" * (limits.MAX_HEAD_BYTES + 1)), 431)
    alive(server)


def test_a_head_without_end_is_not_kept(server: Server) -> None:
    client = server.connect("GET / HTTP/1.1\r\n")
    with client, suppress(ConnectionError):
        while client.send(b"X: " + b"x" * 1000 + b"\r\n"):
            pass
    alive(server)


def test_trailers_and_extensions_of_chunks_count_as_head(server: Server) -> None:
    begun = f"POST /api/v1/workspaces HTTP/1.1\r\n{AUTHORIZED}Transfer-Encoding: chunked\r\n\r\n"
    told(server.connect(f"{begun}1;x=" + "x" * (limits.MAX_HEAD_BYTES + 1)), 431)
    trailers = "".join(f"X-{n}: {'x' * 1000}\r\n" for n in range(100))
    with server.connect(f"{begun}0\r\n{trailers}") as client:
        assert answer(client)[0] in (400, 431)


def test_a_slow_head_ends(server: Server) -> None:
    told(server.connect("GET / HTTP/1.1\r\nX: "), 408, "head", f"{limits.HEAD_S} s")
    with server.connect() as silent:
        assert silent.recv(10) == b""
    told(server.connect("\r\n\r\n"), 408)
    wait_until(lambda: server.connections == 0)


def test_a_slow_body_ends(server: Server) -> None:
    begun = f"POST /api/v1/workspaces HTTP/1.1\r\n{AUTHORIZED}Content-Length: 100\r\n\r\n{{"
    told(server.connect(begun), 408, "body", f"{limits.BODY_S} s")
    chunked = begun.replace("Content-Length: 100", "Transfer-Encoding: chunked")
    told(server.connect(chunked[:-1] + "1\r\n{\r\n"), 408)
    wait_until(lambda: server.connections == 0)


def test_a_dripping_body_ends(server: Server) -> None:
    run = start_interactive(server.plane, "w", {"experiment": "e"}, "me")
    client = server.connect(
        f"PUT /api/v1/runs/{run.id}/files/a HTTP/1.1\r\n{AUTHORIZED}Content-Length: 9999999\r\n\r\n"
    )
    client.settimeout(QUICK)
    received = b""
    with client, suppress(ConnectionError):
        while client.send(b"x"):
            with suppress(TimeoutError):
                received += client.recv(1000)
    assert received.startswith(b"HTTP/1.1 408 ") or not received  # a reset may be faster
    wait_until(lambda: server.connections == 0)
    assert list((Path(server.plane.settings.home) / "blobs" / "incoming").iterdir()) == []


def test_a_refused_body_is_answered_before_it_is_sent(server: Server) -> None:
    length = server.plane.settings.max_body_bytes + 1
    begun = f"POST /api/v1/workspaces HTTP/1.1\r\n{AUTHORIZED}Content-Length: {length}\r\n\r\n"
    told(server.connect(begun + "x" * 100_000), 413, "larger than")
    wait_until(lambda: server.connections == 0)


def test_who_never_reads_is_let_go(server: Server) -> None:
    run = start_interactive(server.plane, "w", {"experiment": "e"}, "me")
    path = f"/api/v1/runs/{run.id}/files/outputs/a"
    files.put(server.plane, run.id, "outputs/a", [b"x" * (1 << 20)] * 32)
    stuck = [server.connect(f"GET {path} HTTP/1.1\r\n{AUTHORIZED}\r\n") for _ in range(3)]
    wait_until(lambda: server.connections == 3)
    held = [each.transport for each in server.protocols]
    wait_until(lambda: all(each.get_write_buffer_size() for each in held) or not server.connections)
    assert all(each.get_write_buffer_size() < 2 << 20 for each in held)
    wait_until(lambda: server.connections == 0)
    for each in stuck:
        each.close()


def test_connections_have_a_number(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "connections", lambda: 5)
    run = start_interactive(server.plane, "w", {"experiment": "e"}, "me")
    waiting = f"GET /api/v1/runs/{run.id}/wait?until=end HTTP/1.1\r\n{AUTHORIZED}\r\n"
    idle = server.connect("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    wait_until(lambda: any(each.timeout_keep_alive_task for each in server.protocols))
    busy = [server.connect(waiting) for _ in range(5)]
    while idle.recv(1000):  # it makes room, after its answer
        pass
    wait_until(lambda: all(each.cycle for each in server.protocols))
    told(server.connect(), 503, "5 connections")
    for each in [*busy, idle]:
        each.close()
    wait_until(lambda: server.connections == 0)
    alive(server)


def test_requests_in_a_row_are_answered_in_order_but_not_without_end(server: Server) -> None:
    one = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    with server.connect(one * 5 + last) as client:
        received = b""
        while piece := client.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 200 OK") == 6
    with server.connect(one * 5000) as client:
        received = b""
        while piece := client.recv(65536):
            received += piece
    assert b"without awaiting answers" in received
    alive(server)


def test_bodies_have_a_share_of_memory(server: Server) -> None:
    held = server.server.config.app.state.held  # type: ignore[union-attr]
    with held.share() as share:
        held.take(share, limits.MAX_HELD_BYTES - 10)
        for path in ("workspaces", "blobs"):
            begun = f"POST /api/v1/{path} HTTP/1.1\r\n{AUTHORIZED}Connection: close\r\n"
            told(server.connect(f"{begun}Content-Length: 100\r\n\r\n" + "x" * 100), 503, "too much")
    begun = f"POST /api/v1/blobs HTTP/1.1\r\n{AUTHORIZED}Connection: close\r\n"
    with server.connect(f"{begun}Content-Length: 0\r\n\r\n") as client:
        assert answer(client) == (200, {"stored": 0})


ODD = [
    b"\0\0\0\0",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"G\xffT / HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
    b"POST /api/v1/workspaces HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/workspaces HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /api/v1/workspaces HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    b"PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/blobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/v1/blobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /api/v1/blobs HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
]


def test_what_is_no_request_is_told_so(server: Server) -> None:
    """Each with the owner's token where there is a place for it."""
    for odd in ODD:
        sent = odd.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\n" + AUTHORIZED.encode(), 1)
        with server.connect(sent) as client:
            received = client.recv(65536)
        assert int(received.split()[1]) in {400, 404, 405, 408}, (odd, received)
        assert b"Traceback" not in received
    alive(server)


def test_an_upgrade_is_not_granted(server: Server) -> None:
    asked = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"
    with server.connect(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n{asked}\r\n") as client:
        assert client.recv(100).startswith(b"HTTP/1.1 200")
