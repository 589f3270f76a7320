"""A server, compute instances behind it, and who visits them."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.test_connections import Server
from tests.planes import TOKEN, make_plane
from tests.stand_in import PATIENCE_S, StandIn, standing_in
from wherry.control import doors
from wherry.control.doors import Door
from wherry.control.plane import Plane
from wherry.core.errors import ConflictError
from wherry.core.ids import new_uuid
from wherry.core.targets import key
from wherry.drivers.memory import MemoryDriver
from wherry.store import computes, workspaces

BEARER = {"Authorization": f"Bearer {TOKEN}"}
BASE = "/instances/w/nb/"
JUPYTER_TOKEN = "jupyter-token"
PAGE = {"Accept": "text/html,*/*"}


class World:
    """A server with instances ``nb`` and ``other``, and the program behind the first."""

    def __init__(self, server: Server, jupyter: StandIn) -> None:
        self.server = server
        self.plane = server.plane
        self.jupyter = jupyter
        self.states: dict[str, str] = {}
        self.asked_for_door = 0

    def door(self, _plane: Plane, _workspace: str, name: str) -> Door:
        self.asked_for_door += 1
        if self.states.get(name, "Running") != "Running":
            state = self.states[name]
            raise ConflictError(f"compute instance {name!r} is {state}", hint="wait", state=state)
        return Door(self.jupyter.path, BASE, JUPYTER_TOKEN)

    @property
    def port(self) -> int:
        return int(self.server.listener.getsockname()[1])

    def add(self, name: str, workspace: str = "w") -> None:
        now = self.plane.now()
        row = {
            "id": new_uuid(),
            "name": name,
            "target": key(workspace, name),
            "type": "ComputeInstance",
            "kind": "instance",
            "config": {"location": "local", "vm_size": "", "address": ""},
            "tags": {},
            "provisioning_state": "Succeeded",
            "provisioning_errors": [],
            "created_at": now,
            "modified_at": now,
        }
        with self.plane.write() as connection:
            row["workspace_id"] = workspaces.get(connection, workspace).id
            computes.add(connection, row)

    def remove(self, name: str) -> None:
        with self.plane.write() as connection:
            computes.remove(connection, key("w", name))

    def row(self, name: str) -> Any:
        with self.plane.database.read() as connection:
            return computes.find(connection, key("w", name))

    def ask(
        self,
        path: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: Any = None,
        host: str = "localhost",
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        given = {"Host": f"{host}:{self.port}", **(headers or {})}
        try:
            connection.request(method, path, body, given)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def open(self, name: str = "nb") -> str:
        reply = self.ask(f"/api/v1/workspaces/w/computes/{name}/open", "POST", BEARER)
        assert reply.status == 200, reply.body
        return str(reply.json["url"])

    def cookie(self, name: str = "nb") -> dict[str, str]:
        reply = self.ask(self.open(name))
        assert reply.status == 303, reply.body
        return {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    with (
        tempfile.TemporaryDirectory(prefix="wherry-") as folder,
        standing_in(Path(folder) / "s") as jupyter,
        Server(plane) as server,
    ):
        world = World(server, jupyter)
        world.add("nb")
        world.add("other")
        monkeypatch.setattr(doors, "door", world.door)
        yield world
        jupyter.released.set()


@contextmanager
def websocket(world: World, headers: dict[str, str], path: str = "ws") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", world.port), timeout=PATIENCE_S) as client:
        given = {
            "Host": f"localhost:{world.port}",
            "Connection": "keep-alive, Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            **headers,
        }
        lines = [f"GET {BASE}{path} HTTP/1.1", *(f"{n}: {v}" for n, v in given.items()), "", ""]
        client.sendall("\r\n".join(lines).encode())
        yield client


def heard(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def head_of(client: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = client.recv(1)
        assert piece, data
        data += piece
    return data.decode()
