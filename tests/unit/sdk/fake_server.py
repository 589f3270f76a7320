"""A server in memory that speaks as much of the HTTP interface as the SDK's tests need."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from wherry.core.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UserErrorException,
    WherryError,
)
from wherry.core.metrics import TAG, Logged, parse_lines, shape
from wherry.core.snapshots import parse_files, snapshot_id

TOKEN = "secret-of-the-fake"
TERMINAL = {"Completed", "Failed", "Canceled"}


class FakeServer:
    """``drop`` loses requests or answers; ``requests`` remembers what arrived."""

    def __init__(self, port: int = 0) -> None:
        self.workspaces: dict[str, dict[str, Any]] = {}
        self.experiments: dict[tuple[str, str], dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.logs: dict[str, list[bytes]] = {}
        self.streams: dict[str, dict[str, int]] = {}
        self.spooling = threading.Lock()
        self.metrics: dict[str, list[Logged]] = {}
        self.snapshots: dict[str, list[dict[str, Any]]] = {}
        self.blobs: dict[str, bytes] = {}
        self.computes: dict[str, dict[str, Any]] = {}
        self.sites: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.acts: list[tuple[str, str, Any]] = []
        self.requests: list[str] = []
        self.targets: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.sockets: list[socket.socket] = []
        self.api = "1"
        self.version = "0.1.0"
        self.changed = threading.Condition()
        self._drops: list[tuple[str, str]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Also hangs up on everyone, as a process that ends does."""
        self._http.shutdown()
        for connection in self.sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join(10)

    def drop(self, pattern: str, when: str = "before", times: int = 1) -> None:
        """Hang up on requests like ``POST /runs``: ``before`` or ``after`` they take effect."""
        self._drops += [(pattern, when)] * times

    def dropping(self, request: str, when: str) -> bool:
        for rule in self._drops:
            if rule[1] == when and re.search(rule[0], request):
                self._drops.remove(rule)
                return True
        return False

    def count(self, pattern: str) -> int:
        return sum(1 for request in self.requests if re.search(pattern, request))

    def set_status(self, run_id: str, status: str, **fields: Any) -> None:
        with self.changed:
            self.runs[run_id].update(status=status, **fields)
            self.changed.notify_all()

    def write_log(self, run_id: str, data: bytes) -> None:
        with self.changed:
            self.logs.setdefault(run_id, []).append(data)
            self.changed.notify_all()

    def finish(
        self, run_id: str, log: bytes = b"", status: str = "Completed", **fields: Any
    ) -> None:
        if log:
            self.write_log(run_id, log)
        self.set_status(run_id, status, ended_at="2026-01-01T00:00:02Z", **fields)

    def logged(self, run_id: str) -> list[tuple[str, str, Any]]:
        return [(each.kind, each.name, each.value) for each in self.metrics.get(run_id, [])]

    def new_run(self, workspace: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
        name = fields["experiment"]
        self.experiments.setdefault((workspace, name), _experiment(workspace, name))
        run_id = fields.get("run_id") or f"{name}_1700000000_{len(self.runs):08x}"
        run = {
            "id": run_id,
            "number": len(self.runs) + 1,
            "workspace": workspace,
            "experiment": name,
            "parent_id": fields.get("parent_id"),
            "root_id": fields.get("parent_id") or run_id,
            "type": None,
            "display_name": fields.get("display_name") or "",
            "description": fields.get("description") or "",
            "status": "Queued",
            "reason": None,
            "message": "",
            "error": None,
            "target": None,
            "snapshot_id": fields.get("snapshot_id"),
            "attempt": 0,
            "submitted_by": "owner",
            "submitted_at": "2026-01-01T00:00:00Z",
            "started_at": None,
            "ended_at": None,
            "archived_at": None,
            "tags": dict(fields.get("tags") or {}),
            "properties": dict(fields.get("properties") or {}),
            "spec": None,
            **more,
        }
        self.runs[run_id] = run
        return run


def _experiment(workspace: str, name: str) -> dict[str, Any]:
    return {
        "id": f"id-of-{name}",
        "name": name,
        "workspace": workspace,
        "description": "",
        "tags": {},
        "created_at": "2026-01-01T00:00:00Z",
        "archived_at": None,
    }


class _Call:
    """One request, taken apart."""

    def __init__(self, fake: FakeServer, path: str, body: bytes, token: str) -> None:
        parts = urlsplit(path)
        self.fake = fake
        self.path = parts.path[len("/api/v1") :]
        self.query = {name: values for name, values in parse_qs(parts.query).items()}
        self.body = body
        self.token = token
        self.match: list[str] = []

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    @property
    def run(self) -> dict[str, Any]:
        run = self.fake.runs.get(self.match[0])
        if run is None:
            raise NotFoundError(f"there is no run {self.match[0]!r}")
        if self.token.startswith("run:"):
            mine = self.token[len("run:") :]
            if mine not in (run["id"], run["parent_id"]):
                raise ForbiddenError("the token of a run does not reach this one")
        return run


Route = Callable[[_Call], Any]
ROUTES: list[tuple[str, str, Route]] = []


def route(method: str, pattern: str) -> Callable[[Route], Route]:
    def add(function: Route) -> Route:
        ROUTES.append((method, pattern + r"\Z", function))
        return function

    return add


@route("GET", "/health")
def _health(call: _Call) -> Any:
    return {"status": "ok", "version": call.fake.version, "api": int(call.fake.api)}


@route("GET", "/workspaces")
def _workspaces(call: _Call) -> Any:
    return {"items": list(call.fake.workspaces.values())}


@route("POST", "/workspaces")
def _create_workspace(call: _Call) -> Any:
    body = call.json
    known = call.fake.workspaces.get(body["name"])
    if known is not None and not body.get("exist_ok"):
        raise ConflictError(f"workspace {body['name']!r} exists already")
    record = known or {
        "id": f"id-of-{body['name']}",
        "name": body["name"],
        "description": body.get("description", ""),
        "tags": body.get("tags", {}),
        "created_at": "2026-01-01T00:00:00Z",
    }
    call.fake.workspaces[body["name"]] = record
    return record


@route("GET", "/workspaces/([^/]+)")
def _show_workspace(call: _Call) -> Any:
    if call.match[0] not in call.fake.workspaces:
        raise NotFoundError(f"there is no workspace {call.match[0]!r}")
    return call.fake.workspaces[call.match[0]]


@route("DELETE", "/workspaces/([^/]+)")
def _delete_workspace(call: _Call) -> Any:
    del call.fake.workspaces[call.match[0]]


@route("GET", "/workspaces/([^/]+)/experiments")
def _experiments(call: _Call) -> Any:
    every = [each for key, each in call.fake.experiments.items() if key[0] == call.match[0]]
    if call.one("archived", "false") != "true":
        every = [each for each in every if each["archived_at"] is None]
    return {"items": every}


@route("POST", "/workspaces/([^/]+)/experiments")
def _ensure_experiment(call: _Call) -> Any:
    key = (call.match[0], call.json["name"])
    record = call.fake.experiments.setdefault(key, _experiment(*key))
    record["archived_at"] = None
    return record


@route("GET", "/workspaces/([^/]+)/experiments/([^/]+)")
def _show_experiment(call: _Call) -> Any:
    key = call.match[0], call.match[1]
    if key not in call.fake.experiments:
        raise NotFoundError(f"there is no experiment {key[1]!r}")
    return call.fake.experiments[key]


@route("PATCH", "/workspaces/([^/]+)/experiments/([^/]+)")
def _change_experiment(call: _Call) -> Any:
    record, body = call.fake.experiments[(call.match[0], call.match[1])], call.json
    if "archived" in body:
        record["archived_at"] = "2026-01-01T00:00:00Z" if body["archived"] else None
    record["tags"].update(body.get("tags", {}))
    for key in body.get("remove_tags", []):
        record["tags"].pop(key, None)
    return record


@route("DELETE", "/workspaces/([^/]+)/experiments/([^/]+)")
def _delete_experiment(call: _Call) -> Any:
    del call.fake.experiments[(call.match[0], call.match[1])]


@route("POST", "/workspaces/([^/]+)/runs")
def _submit(call: _Call) -> Any:
    body, fake = call.json, call.fake
    if body.get("submission_key") in fake.keys:
        return fake.runs[fake.keys[body["submission_key"]]]
    if body["snapshot_id"] not in fake.snapshots:
        raise NotFoundError("no such snapshot", snapshot_id=body["snapshot_id"])
    run = fake.new_run(
        call.match[0], body, type="azureml.scriptrun", target=body["target"], spec=body
    )
    if body.get("submission_key"):
        fake.keys[body["submission_key"]] = run["id"]
    return run


@route("POST", "/workspaces/([^/]+)/runs/plan")
def _plan(call: _Call) -> Any:
    return {"target": call.json["target"], "argv": [call.json["script"]], "rendered": "exec ..."}


@route("POST", "/workspaces/([^/]+)/runs/interactive")
def _interactive(call: _Call) -> Any:
    if call.token.startswith("run:") and call.json["parent_id"] != call.token[len("run:") :]:
        raise ForbiddenError("a run may only make runs below itself")
    if call.json.get("run_id") in call.fake.runs:
        raise UserErrorException(f"there is a run {call.json['run_id']!r} already")
    return call.fake.new_run(call.match[0], call.json, status="Running")


@route("GET", "/workspaces/([^/]+)/runs")
def _runs(call: _Call) -> Any:
    every = [run for run in call.fake.runs.values() if run["workspace"] == call.match[0]]
    every.sort(key=lambda run: -run["number"])
    for name in ("experiment", "type", "target", "parent_id"):
        if call.one(name):
            every = [run for run in every if run[name] == call.one(name)]
    if call.query.get("status"):
        every = [run for run in every if run["status"] in call.query["status"]]
    for pair in call.query.get("tag", []):
        key, equals, value = pair.partition("=")
        every = [r for r in every if key in r["tags"] and (not equals or r["tags"][key] == value)]
    if call.one("include_children") != "true" and not call.one("parent_id"):
        every = [run for run in every if run["parent_id"] is None]
    start, limit = int(call.one("cursor", "0")), int(call.one("limit", "50"))
    more = start + limit < len(every)
    return {
        "items": every[start : start + limit],
        "next_cursor": str(start + limit) if more else None,
    }


@route("GET", "/workspaces/([^/]+)/runs/resolve/([^/]+)")
def _resolve(call: _Call) -> Any:
    found = [run for run in call.fake.runs.values() if run["id"].startswith(call.match[1])]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(f"no run {call.match[1]!r}")
    raise ConflictError("several runs fit", candidates=[run["id"] for run in found])


@route("GET", "/runs/([^/]+)")
def _run(call: _Call) -> Any:
    return call.run


@route("GET", "/runs/([^/]+)/wait")
def _wait(call: _Call) -> Any:
    deadline = time.monotonic() + float(call.one("timeout_s", "30"))
    run = call.run
    with call.fake.changed:
        while run["status"] == call.one("seen") and run["status"] not in TERMINAL:
            if not call.fake.changed.wait(max(0.0, deadline - time.monotonic())):
                break
    return run


@route("PATCH", "/runs/([^/]+)")
def _change(call: _Call) -> Any:
    run, body = call.run, call.json
    for key, value in body.get("properties", {}).items():
        if run["properties"].get(key, value) != value:
            raise ConflictError(f"property {key!r} is set already")
    run["properties"].update(body.get("properties", {}))
    run["tags"].update(body.get("tags", {}))
    for key in body.get("remove_tags", []):
        run["tags"].pop(key, None)
    for name in ("display_name", "description"):
        if name in body:
            run[name] = body[name]
    if "archived" in body:
        run["archived_at"] = "2026-01-01T00:00:00Z" if body["archived"] else None
    return run


@route("POST", "/runs/([^/]+)/cancel")
def _cancel(call: _Call) -> Any:
    call.fake.set_status(call.run["id"], "Canceled", message="canceled")
    return call.run


@route("POST", "/runs/([^/]+)/end")
def _end(call: _Call) -> Any:
    body = call.json
    if call.run["target"] is not None:
        raise ConflictError("the run is driven by its target")
    message = (body.get("error") or {}).get("message", "")
    call.fake.set_status(call.run["id"], body["status"], error=body.get("error"), message=message)
    return call.run


@route("DELETE", "/runs/([^/]+)")
def _delete(call: _Call) -> Any:
    del call.fake.runs[call.run["id"]]


@route("GET", "/runs/([^/]+)/children")
def _children(call: _Call) -> Any:
    return {"items": [run for run in call.fake.runs.values() if run["parent_id"] == call.match[0]]}


@route("GET", "/runs/([^/]+)/events")
def _events(call: _Call) -> Any:
    return {"items": [{"at": "2026-01-01T00:00:00Z", "from": None, "to": call.run["status"]}]}


@route("POST", "/runs/([^/]+)/heartbeat")
def _heartbeat(call: _Call) -> Any:
    call.run["heartbeat"] = True


@route("POST", "/runs/([^/]+)/spool/([^/]+)")
def _spool(call: _Call) -> Any:
    with call.fake.spooling:  # one that was given up may still be under way beside its repetition
        return _take(call)


def _take(call: _Call) -> Any:
    streams = call.fake.streams.setdefault(call.run["id"], {})
    size, offset = streams.get(call.match[1], 0), int(call.one("offset"))
    if offset > size:
        raise ConflictError("a gap", size=size)
    for entry in parse_lines(call.body[size - offset :]):
        owner = entry.run_id or call.match[0]
        if entry.kind == TAG:
            call.fake.runs[owner]["tags"][entry.name] = str(entry.value)
        else:
            call.fake.metrics.setdefault(owner, []).append(entry)
    streams[call.match[1]] = max(size, offset + len(call.body))
    return {"size": streams[call.match[1]]}


@route("GET", "/runs/([^/]+)/spool")
def _spooled(call: _Call) -> Any:
    return {"streams": call.fake.streams.get(call.run["id"], {})}


@route("GET", "/runs/([^/]+)/metrics")
def _metrics(call: _Call) -> Any:
    run = call.run
    if call.one("recursive") != "true":
        return {"metrics": _shaped(call.fake, run["id"], call.one("name"))}
    below = [each["id"] for each in call.fake.runs.values() if each["parent_id"] == run["id"]]
    return {"runs": {each: _shaped(call.fake, each, "") for each in [run["id"], *below]}}


def _shaped(fake: FakeServer, run_id: str, wanted: str) -> dict[str, Any]:
    grouped: dict[str, list[Logged]] = {}
    for entry in fake.metrics.get(run_id, []):
        if wanted in ("", entry.name):
            grouped.setdefault(entry.name, []).append(entry)
    return {
        name: shape(entries[0].kind, [entry.value for entry in entries])
        for name, entries in grouped.items()
    }


@route("GET", "/runs/([^/]+)/metrics/summary")
def _summary(call: _Call) -> Any:
    entries = call.fake.metrics.get(call.run["id"], [])
    return {
        "metrics": {
            entry.name: {
                "kind": entry.kind,
                "count": len([each for each in entries if each.name == entry.name]),
                "last": entry.value,
            }
            for entry in entries
        }
    }


@route("GET", "/runs/([^/]+)/metrics/history")
def _history(call: _Call) -> Any:
    entries = [e for e in call.fake.metrics.get(call.run["id"], []) if e.name == call.one("name")]
    return {
        "count": len(entries),
        "steps": [entry.step for entry in entries],
        "times": [entry.at for entry in entries],
        "values": [entry.value for entry in entries],
    }


@route("GET", "/runs/([^/]+)/files")
def _files(call: _Call) -> Any:
    files = dict(call.fake.files.get(call.run["id"], {}))
    if call.match[0] in call.fake.logs:
        files["user_logs/std_log.txt"] = b"".join(call.fake.logs[call.match[0]])
    return {
        "items": [
            {"path": path, "size": len(data), "digest": "", "modified_at": "2026-01-01T00:00:00Z"}
            for path, data in sorted(files.items())
        ]
    }


@route("GET", "/runs/([^/]+)/files/(.+)")
def _read_file(call: _Call) -> Any:
    if call.match[1] == "user_logs/std_log.txt":
        return b"".join(call.fake.logs.get(call.run["id"], []))
    data = call.fake.files.get(call.run["id"], {}).get(call.match[1])
    if data is None:
        raise NotFoundError(f"no file {call.match[1]!r}")
    return data


@route("PUT", "/runs/([^/]+)/files/(.+)")
def _write_file(call: _Call) -> Any:
    call.fake.files.setdefault(call.run["id"], {})[call.match[1]] = call.body
    return {"path": call.match[1], "size": len(call.body), "digest": ""}


@route("POST", "/runs/([^/]+)/files/batch")
def _write_files(call: _Call) -> Any:
    stream, stored = io.BytesIO(call.body), 0
    while header := stream.readline().split():
        data = stream.read(int(header[1]))
        call.fake.files.setdefault(call.run["id"], {})[unquote(header[0].decode())] = data
        stored += 1
    return {"stored": stored}


@route("GET", "/runs/([^/]+)/uploads/(.+)")
def _show_upload(call: _Call) -> Any:
    return {"size": 0}


@route("GET", "/runs/([^/]+)/logs/(.+)")
def _read_log(call: _Call) -> Any:
    if call.run["type"] is None and call.run["id"] not in call.fake.logs:
        raise NotFoundError(f"run {call.run['id']} has no log or file")
    return _log_chunks(call.fake, call.run, int(call.one("offset", "0")), call.one("follow"))


def _log_chunks(fake: FakeServer, run: dict[str, Any], offset: int, follow: str) -> Iterator[bytes]:
    while True:
        with fake.changed:
            ended = run["status"] in TERMINAL or follow != "true"
            data = b"".join(fake.logs.get(run["id"], []))[offset:]
            if not data and not ended:
                fake.changed.wait(0.2)
                continue
        if data:
            offset += len(data)
            yield data
        elif ended:
            return


@route("POST", "/workspaces/([^/]+)/snapshots")
def _register(call: _Call) -> Any:
    if "base" in call.json:
        return _register_changes(call)
    files = parse_files(call.json["files"])
    missing = sorted({f.digest for f in files if f.digest and f.digest not in call.fake.blobs})
    if not missing:
        call.fake.snapshots[snapshot_id(files)] = call.json["files"]
    return {"id": snapshot_id(files), "missing": missing}


def _register_changes(call: _Call) -> Any:
    fake, fields = call.fake, call.json
    if fields["base"] not in fake.snapshots:
        raise NotFoundError("no such base")
    for content in fields["contents"]:
        data = base64.b64decode(content)
        fake.blobs[hashlib.sha256(data).hexdigest()] = data
    gone = {*fields["removed"], *[each["path"] for each in fields["files"]]}
    kept = [each for each in fake.snapshots[fields["base"]] if each["path"] not in gone]
    files = sorted(parse_files([*kept, *fields["files"]]))
    assert snapshot_id(files) == fields["id"]
    missing = sorted({f.digest for f in files if f.digest and f.digest not in fake.blobs})
    if not missing:
        fake.snapshots[fields["id"]] = [each.to_dict() for each in files]
    return {"id": fields["id"], "missing": missing}


@route("POST", "/blobs")
def _blobs(call: _Call) -> Any:
    stream, stored = io.BytesIO(call.body), 0
    while header := stream.readline().split():
        data = stream.read(int(header[1]))
        assert hashlib.sha256(data).hexdigest() == header[0].decode()
        call.fake.blobs[header[0].decode()] = data
        stored += 1
    return {"stored": stored}


@route("GET", "/snapshots/([^/]+)")
def _show_snapshot(call: _Call) -> Any:
    files = call.fake.snapshots[call.match[0]]
    return {"id": call.match[0], "files": files, "count": len(files)}


@route("GET", "/snapshots/([^/]+)/archive")
def _archive(call: _Call) -> Any:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for file in call.fake.snapshots[call.match[0]]:
            info = tarfile.TarInfo(file["path"])
            info.mode = file["mode"]
            info.size = file["size"]
            archive.addfile(info, io.BytesIO(call.fake.blobs[file["digest"]]))
    return target.getvalue()


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            fake.connections += 1
            fake.sockets.append(self.request)
            super().setup()

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._serve()

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def _serve(self) -> None:
            with suppress(ConnectionError):
                self._answer_request()

        def _answer_request(self) -> None:
            request = f"{self.command} {self.path}"
            if fake.dropping(request, "before"):
                self.close_connection = True
                return
            body = self._body()
            fake.requests.append(request)
            fake.targets.append(self.path)
            fake.headers.append(dict(self.headers.items()))
            try:
                answer = self._answer(body)
            except WherryError as error:
                if fake.dropping(request, "after"):
                    self.close_connection = True
                    return
                self._send(error.http_status, json.dumps(error.problem()).encode())
                return
            if fake.dropping(request, "after"):
                self.close_connection = True
                return
            if isinstance(answer, Iterator):
                self._stream(request, answer)
            elif isinstance(answer, bytes):
                self._send_range(answer, fake.dropping(request, "during"))
            else:
                self._send(200, b"" if answer is None else json.dumps(answer).encode())

        def _answer(self, body: bytes) -> Any:
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            call = _Call(fake, self.path, body, token)
            if call.path != "/health" and not token.startswith(("run:", TOKEN)):
                raise ForbiddenError("a token is needed")
            for method, pattern, function in ROUTES:
                match = re.match(pattern, call.path)
                if method == self.command and match:
                    call.match = [unquote(part) for part in match.groups()]
                    return function(call)
            raise NotFoundError(f"there is nothing at {call.path}")

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                if len(body) < size:
                    raise ConnectionError("the body came incomplete")
                return body
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _head(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Wherry-Api", fake.api)
            self.send_header("Wherry-Version", fake.version)

        def _send(self, status: int, content: bytes) -> None:
            self._head(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _send_range(self, content: bytes, cut: bool) -> None:
            asked = self.headers.get("Range")
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            self._head(206 if asked else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            if cut:
                self.wfile.write(content[start : start + (len(content) - start) // 2])
                self.close_connection = True
                return
            self.wfile.write(content[start:])

        def _stream(self, request: str, chunks: Iterator[bytes]) -> None:
            self._head(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                if fake.dropping(request, "during"):
                    self.close_connection = True
                    return
            self.wfile.write(b"0\r\n\r\n")

    return Handler
