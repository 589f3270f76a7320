"""The command line over a control plane in this process: no socket, no other process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, make_plane, run_fields
from wherry.api.app import create_app
from wherry.cli.app import run
from wherry.cli.session import Session
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver
from wherry.sdk.client import Address, Client
from wherry.sdk.transport import Response


class Result(NamedTuple):
    code: int
    out: str
    err: str


Wherry = Callable[..., Result]


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plane:
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WHERRY_WORKSPACE", "w")
    for name in ("WHERRY_SERVER", "WHERRY_TOKEN", "WHERRY_OUTPUT", "NO_COLOR", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    return make_plane(tmp_path / "plane", {"local": MemoryDriver()})


@pytest.fixture
def client(plane: Plane) -> Iterator[Client]:
    with TestClient(create_app(plane, reconcile=False), raise_server_exceptions=False) as http:
        yield InProcess(http)


@pytest.fixture
def wherry(client: Client, capsys: pytest.CaptureFixture[str]) -> Wherry:
    """``wherry("ps", "-a")``: what that command line printed, and its exit code."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(list(arguments), Session(client))
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return call


class Runs:
    """Runs in all states, made through the API."""

    def __init__(self, client: Client, plane: Plane) -> None:
        self.client = client
        self.plane = plane

    def queued(self, contents: Mapping[str, bytes] | None = None, **fields: Any) -> dict[str, Any]:
        snapshot = add_snapshot(self.plane, contents or {"train.py": b"print(1)\n"})
        body = run_fields(snapshot, **fields)
        return dict(self.client.post("/workspaces/w/runs", json=body))

    def ended(self, status: str, error: Any = None, **fields: Any) -> dict[str, Any]:
        body = {"experiment": "e", **fields}
        made = self.client.post("/workspaces/w/runs/interactive", json=body)
        end = {"status": status, "error": error}
        return dict(self.client.post(f"/runs/{made['id']}/end", json=end))

    def log(self, run_id: str, *lines: str) -> None:
        data = "".join(line + "\n" for line in lines).encode()
        self.client.post(f"/runs/{run_id}/spool/metrics.1.jsonl?offset=0", data=data)


@pytest.fixture
def runs(client: Client, plane: Plane) -> Runs:
    return Runs(client, plane)


class InProcess(Client):
    """A client whose requests never leave the process."""

    def __init__(self, http: TestClient) -> None:
        super().__init__(Address("http://testserver", TOKEN))
        self._http = http

    def _exchange(
        self, method: str, target: str, body: Any, headers: Mapping[str, str], timeout_s: float
    ) -> Response:
        content = body() if callable(body) else body
        if content is not None and not isinstance(content, bytes):
            content = b"".join(cast("Iterable[bytes]", content))
        headers = {**headers, "Authorization": f"Bearer {self.token}"}
        reply = self._http.request(method, target, content=content, headers=headers)
        response = cast("Response", _Reply(reply))
        self._check(response)
        return response


class _Reply:
    def __init__(self, reply: Any) -> None:
        self._reply = reply
        self.status = reply.status_code

    def header(self, name: str) -> str | None:
        return cast("str | None", self._reply.headers.get(name))

    def read(self, limit: int = -1) -> bytes:
        return cast("bytes", self._reply.content)

    def chunks(self) -> Iterator[bytes]:
        yield self._reply.content

    def close(self) -> None:
        pass

    def __enter__(self) -> _Reply:
        return self

    def __exit__(self, *_: object) -> None:
        pass
