"""Stand-ins for tests: a server that takes what runners send and keeps it in memory."""

from __future__ import annotations

import io
import json
import socket
import tarfile
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Exchange:
    """One request as it came, and the status it was answered with."""

    method: str
    path: str
    status: int


@dataclass
class FakeServer:
    """The routes that a runner and a ``Shipper`` use, on a port of this machine.

    ``fail`` may be set to a function of (method, path) that returns a status to answer with, or
    None to go on; ``cancel`` makes every report be answered with the wish to cancel; ``pace_s``
    passes between the pieces of a snapshot; ``server_id`` is in every answer; ``ports`` are those
    of the nodes that a run has met, behind the one that asks. Use it as a context manager;
    ``stop`` and ``start`` again keep the address and what was taken.
    """

    token: str = "secret"
    cancel: bool = False
    pace_s: float = 0.0
    server_id: str = ""
    fail: Callable[[str, str], int | None] | None = None
    snapshots: dict[str, bytes] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, bytearray] = field(default_factory=dict)
    streams: dict[str, bytearray] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    connections: int = 0
    ports: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._port = 0

    def __enter__(self) -> FakeServer:
        self.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self, port: int | None = None) -> None:
        self._server = _Server(("127.0.0.1", self._port if port is None else port), self)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None

    def add_snapshot(self, snapshot_id: str, files: Mapping[str, str | bytes]) -> None:
        self.snapshots[snapshot_id] = tar(files)

    @property
    def stages(self) -> list[str]:
        return [report["stage"] for report in self.reports if report.get("stage")]

    @property
    def exits(self) -> list[dict[str, Any]]:
        return [report["exit"] for report in self.reports if report.get("exit")]

    @property
    def log(self) -> bytes:
        """The log of the only attempt."""
        return bytes(next(iter(self.logs.values()), b""))

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the JSON, or the bytes, to answer with."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        names = [unquote(part) for part in parts.path.split("/")[3:]]
        with self._lock:
            status = self.fail(method, parts.path) if self.fail else None
            if status is not None:
                return status, {"detail": "as the test wished"}
            return self._route(method, names, query, body)

    def _route(
        self, method: str, names: list[str], query: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        if names[0] == "attempts" and names[2:] == ["report"]:
            report = json.loads(body)
            log = report.pop("log", None)
            self.reports.append(report)
            if log:
                key = f"{names[1]}/{STD_LOG}"
                kept = self.logs.setdefault(key, bytearray())
                _append(kept, log["offset"], b64decode(log["data"]))
            own = {"ports": [report["ports"], *self.ports]} if report.get("ports") else {}
            return 200, {"cancel": self.cancel, **own}
        if names[0] == "snapshots" and names[1] in self.snapshots:
            return 200, self.snapshots[names[1]]
        if names[0] == "runs" and names[2] == "logs":
            key = f"{query['attempt']}/{'/'.join(names[3:])}"
            return _append(self.logs.setdefault(key, bytearray()), int(query["offset"]), body)
        if names[0] == "runs" and names[2] == "spool":
            if not body.endswith(b"\n"):
                return 400, {"detail": "a spool is sent in whole lines"}
            stream = self.streams.setdefault(names[3], bytearray())
            return _append(stream, int(query["offset"]), body)
        if names[0] == "runs" and names[2:] == ["files", "batch"] and method == "POST":
            stored = list(_frames(body))
            self.files.update(stored)
            return 200, {"stored": len(stored)}
        if names[0] == "runs" and names[2:] == ["files"]:
            return 200, {"items": [{"path": path} for path in self.files]}
        if names[0] == "runs" and names[2] == "files" and method == "GET":
            return 200, self.files["/".join(names[3:])]
        if names[0] == "runs" and names[2] == "files" and method == "PUT":
            self.files["/".join(names[3:])] = body
            return 200, {"path": "/".join(names[3:]), "size": len(body)}
        if names[0] == "runs" and names[2] == "uploads":
            return 200, {"size": 0}
        return 404, {"detail": f"there is no {'/'.join(names)}"}


def tar(files: Mapping[str, str | bytes]) -> bytes:
    """An archive of these files; a name that ends in ``.sh`` is executable."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as content:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
            content.addfile(info, io.BytesIO(data))
    return archive.getvalue()


STD_LOG = "user_logs/std_log.txt"
_UNKNOWN: tuple[int, Any] = (401, {"detail": "the token is not valid"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], fake: FakeServer) -> None:
        self.fake = fake
        self._open: set[Any] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.fake.connections += 1
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""

    def hang_up(self) -> None:
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)  # closing alone would not wake its thread


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def _answer(self) -> None:
        fake: FakeServer = self.server.fake  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        known = self.headers.get("Authorization") == f"Bearer {fake.token}"
        status, result = fake.answer(self.command, self.path, body) if known else _UNKNOWN
        data = result if isinstance(result, bytes) else json.dumps(result).encode()
        fake.exchanges.append(Exchange(self.command, self.path, status))
        self.send_response(status)
        self.send_header("Wherry-Api", "1")
        self.send_header("Wherry-Server", fake.server_id)
        if isinstance(result, bytes):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(data), 1 << 16):
                piece = data[start : start + (1 << 16)]
                time.sleep(fake.pace_s)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        self.wfile.flush()

    do_GET = do_PUT = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Tests have no use for an access log."""


def _append(stored: bytearray, offset: int, data: bytes) -> tuple[int, dict[str, Any]]:
    if offset > len(stored):
        return 409, {"detail": "there is a gap", "fields": {"size": len(stored)}}
    stored += data[len(stored) - offset :]
    return 200, {"size": len(stored)}


def _frames(body: bytes) -> Iterator[tuple[str, bytes]]:
    while body:
        header, _, body = body.partition(b"\n")
        name, _, size = header.decode().rpartition(" ")
        yield unquote(name), body[: int(size)]
        body = body[int(size) :]
