"""JupyterLab through the server beside the same socket without it: requests, bytes, websockets.

What answers is a small program of the tests: it takes less time than JupyterLab, and what is
measured is the way there.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
import uvloop
from tests import sshd
from tests.planes import TOKEN, make_plane
from tests.stand_in import StandIn

from benchmarks.measure import Row, command, medians_s, ratio_row
from benchmarks.ssh import ssh_command
from wherry.api.app import create_app
from wherry.api.connections import configured, watch
from wherry.control import doors
from wherry.control.doors import Door
from wherry.core.ids import new_uuid
from wherry.drivers.ssh import SshDriver

REQUESTS = 400
ROUND_TRIPS = 2000
MEGABYTES = 200
DOWNLOADS = 5
_BASE = "/instances/w/nb/"
_SPAWN = multiprocessing.get_context("spawn")


class Way(NamedTuple):
    """To the program: how a connection is made, and what each request says beside its path."""

    connect: Callable[[], socket.socket]
    headers: str


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="wherry-bench-") as folder, _program(folder) as path:
        direct = Way(lambda: _unix(path), "Connection: close\r\n")
        with _server(folder, path) as port:
            found = _measured(_through(port), direct)
        if sshd.missing():
            print("the way over SSH is not measured", file=sys.stderr)
            return found
        with (
            sshd.serving(Path(folder) / "sshd", "127.0.0.19") as machine,
            _server(folder, path, machine.host()) as port,
        ):
            return found + _measured_over_ssh(_through(port), machine, folder)


def _measured_over_ssh(way: Way, machine: sshd.Sshd, folder: str) -> list[Row]:
    """Beside the same bytes through ``ssh host cat``."""
    path = Path(folder) / "bytes"
    path.write_bytes(b"x" * (MEGABYTES << 20))
    cat = command(*ssh_command(machine, "cat", str(path)))
    _get(way, REQUESTS // 10)
    got = sorted(_get(way, REQUESTS))
    trip, (whole, alone) = _round_trips(way), medians_s(lambda: _download(way), cat, DOWNLOADS)
    first, last = statistics.median(got), got[int(len(got) * 0.95)]
    shown = f"{first * 1000:.1f} ms, {last * 1000:.1f} ms"
    return [
        Row("GET of a small file of an instance over SSH, median and 95th of 100", shown),
        Row("round trip over a websocket of an instance over SSH", f"{trip * 1000:.1f} ms"),
        ratio_row(
            f"download of {MEGABYTES} MB from an instance over SSH", whole, "ssh host cat", alone, 5
        ),
    ]


def _measured(way: Way, direct: Way) -> list[Row]:
    """Both in turns: what disturbs the one disturbs the other."""
    _get(way, REQUESTS // 10)
    gets = [(_get(way, 20), _get(direct, 20)) for _ in range(REQUESTS // 20)]
    ours, theirs = (sorted(chain(*(pair[side] for pair in gets))) for side in (0, 1))
    p95 = int(len(ours) * 0.95)
    downloads = [(_download(way), _download(direct)) for _ in range(DOWNLOADS)]
    trips = [(_round_trips(way), _round_trips(direct)) for _ in range(3)]
    there = "on its socket"
    medians = statistics.median(ours), there, statistics.median(theirs)
    what = "GET of a small file of an instance"
    return [
        ratio_row(f"{what}, median", *medians, 6),
        ratio_row(f"{what}, 95th of 100", ours[p95], there, theirs[p95], 6),
        ratio_row(f"download of {MEGABYTES} MB from an instance", *_medians(downloads, there), 8),
        ratio_row("round trip over a websocket of an instance", *_medians(trips, there), 8),
    ]


def _medians(taken: list[tuple[float, float]], baseline: str) -> tuple[float, str, float]:
    ours, theirs = (statistics.median(each[side] for each in taken) for side in (0, 1))
    return ours, baseline, theirs


def _get(way: Way, count: int) -> list[float]:
    """As a browser does: over one connection, where it is kept."""
    taken, kept = [], "close" not in way.headers
    connection = way.connect()
    for _ in range(count):
        started = time.perf_counter()
        if not kept:
            connection = way.connect()
        connection.sendall(_request("small", way))
        _whole(connection)
        if not kept:
            connection.close()
        taken.append(time.perf_counter() - started)
    connection.close()
    return taken


def _download(way: Way) -> float:
    started = time.perf_counter()
    with way.connect() as connection:
        connection.sendall(_request(f"big?mb={MEGABYTES}", way))
        size = _whole(connection)
    assert size == MEGABYTES << 20
    return time.perf_counter() - started


def _round_trips(way: Way) -> float:
    with way.connect() as connection:
        upgrade = (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        )
        connection.sendall(_request("ws", Way(way.connect, _without_connection(way) + upgrade)))
        heard = b""
        while not heard.endswith(b"\r\n\r\nhello"):
            heard += connection.recv(1)
        started = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            connection.sendall(b"x" * 100)
            left = 100
            while left:
                left -= len(connection.recv(left))
        return (time.perf_counter() - started) / ROUND_TRIPS


def _without_connection(way: Way) -> str:
    return way.headers.replace("Connection: close\r\n", "")


def _request(path: str, way: Way) -> bytes:
    return f"GET {_BASE}{path} HTTP/1.1\r\nHost: localhost\r\n{way.headers}\r\n".encode()


def _whole(connection: socket.socket) -> int:
    """The size of an answer that says how long it is."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        assert piece, data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.split()[1] == b"200", head
    (length,) = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    left, buffer = length - len(body), bytearray(1 << 18)
    while left:
        left -= connection.recv_into(buffer, min(left, len(buffer)))
    return length


def _through(port: int) -> Way:
    def connect() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    return Way(connect, f"Authorization: Bearer {TOKEN}\r\n")


def _unix(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


@contextmanager
def _program(folder: str) -> Iterator[str]:
    path = f"{folder}/s"
    with _process(_stand_in, path):
        yield path


def _stand_in(ready: Any, path: str) -> None:
    program = StandIn(Path(path))
    program.start()
    ready.put(0)
    program.released.wait()


@contextmanager
def _server(folder: str, path: str, host: Any = None) -> Iterator[int]:
    with _process(_serve, folder, path, host) as port:
        yield port


def _serve(ready: Any, folder: str, path: str, host: Any) -> None:
    plane = make_plane(Path(folder) / f"home-{new_uuid()}", {})
    driver = SshDriver(host, f"{folder}/nodes") if host is not None else None

    doors.door = lambda *_: Door(driver.dial(path) if driver else path, _BASE, "token")

    async def serve() -> None:
        server = uvicorn.Server(configured(create_app(plane, reconcile=False), plane.server_id))
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        watching = asyncio.create_task(watch(server.server_state.connections))
        while not server.started:
            await asyncio.sleep(0.01)
        ready.put(listener.getsockname()[1])
        await serving
        watching.cancel()

    uvloop.run(serve())


@contextmanager
def _process(target: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    ready = _SPAWN.Queue()
    process = _SPAWN.Process(target=target, args=(ready, *arguments))
    process.start()
    try:
        yield ready.get(timeout=60)
    finally:
        process.terminate()
        process.join()
