"""Compute instances through the server: what is passed on, who is let in, and what is not."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.test_connections import Server
from tests.homes import wait_until
from tests.planes import TOKEN, make_plane
from tests.stand_in import PATIENCE_S, StandIn, standing_in
from wherry.api import limits
from wherry.control import doors, instance_logins, instance_tokens
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


def test_a_request_is_passed_on_as_it_was_sent(world: World) -> None:
    path = f"{BASE}api/a%20b%2Fc//..%2e/?q=%C3%BC&r=a+b"
    reply = world.ask(path, "PUT", {**BEARER, "X-Own": "1"}, b"body")
    assert reply.json["target"] == path
    assert reply.json["method"] == "PUT"
    (asked,) = world.jupyter.asked
    assert asked.body == b"body"
    assert asked.header("x-own") == "1"
    assert asked.header("host") == "localhost"
    assert asked.header("authorization") == f"token {JUPYTER_TOKEN}"
    assert asked.header("x-forwarded-host") == f"localhost:{world.port}"
    assert asked.header("connection") == "close"
    assert reply.headers["Wherry-Api"]
    assert reply.headers["Server"] is None
    assert TOKEN not in str(asked)


def test_what_is_between_two_servers_alone_is_not_passed_on(world: World) -> None:
    cookie = world.cookie()["Cookie"]
    world.ask(
        f"{BASE}x",
        headers={
            "Cookie": f"_xsrf=1; {cookie}; username=2",
            "Connection": "close, X-Private",
            "X-Private": "1",
            "Keep-Alive": "5",
            "TE": "trailers",
            "Proxy-Authorization": "x",
            "Forwarded": "for=1.2.3.4",
            "X-Forwarded-For": "1.2.3.4",
            "X-Forwarded-User": "root",
            "Origin": f"http://localhost:{world.port}",
            "Referer": f"http://localhost:{world.port}{BASE}lab",
            "Authorization": "token of-another-login",
        },
    )
    (asked,) = world.jupyter.asked
    assert asked.header("cookie") == "_xsrf=1; username=2"
    assert asked.header("x-forwarded-for") == "127.0.0.1"
    assert asked.header("authorization") == f"token {JUPYTER_TOKEN}"
    gone = "x-private keep-alive te proxy-authorization forwarded x-forwarded-user origin referer"
    assert [name for name in gone.split() if asked.header(name)] == []


def test_every_method_and_form_of_answer(world: World) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert world.ask(f"{BASE}x", method, BEARER).json["method"] == method
    assert world.ask(f"{BASE}x", "HEAD", BEARER).status == 200
    assert world.ask(f"{BASE}pieces", headers=BEARER).body == b"abcde"
    assert world.ask(f"{BASE}unmeasured", headers=BEARER).body == b"to the end"
    assert world.ask(f"{BASE}more", headers=BEARER).body == b"four"
    unchanged = world.ask(f"{BASE}unchanged", headers=BEARER)
    assert (unchanged.status, unchanged.headers["Etag"]) == (304, "x")


def test_an_answer_sets_its_own_cookies_and_reaches_no_further(world: World) -> None:
    reply = world.ask(f"{BASE}cookies", headers=BEARER)
    assert reply.headers.get_all("Set-Cookie") == ["a=1; Path=/", "b=2"]
    ours = world.cookie()["Cookie"].partition("=")[0]
    for name in (ours, f" {ours} "):  # browsers take both for the same
        world.jupyter.more = f"Set-Cookie: {name}=x; Path=/\r\n"
        assert world.ask(f"{BASE}said", headers=BEARER).headers["Set-Cookie"] is None
    assert reply.headers["Service-Worker-Allowed"] is None
    assert reply.headers["Referrer-Policy"] == "same-origin"
    assert reply.headers.get_all("X-Content-Type-Options") == ["nosniff"]


def test_bodies_of_any_size_and_framing(world: World) -> None:
    data = os.urandom(1 << 20) * 20
    sent = world.ask(f"{BASE}x", "PUT", BEARER, data).json
    assert sent["sha256"] == hashlib.sha256(data).hexdigest()
    pieces = (data[start : start + 99_999] for start in range(0, len(data), 99_999))
    sent = world.ask(f"{BASE}x", "POST", BEARER, pieces).json
    assert sent["sha256"] == hashlib.sha256(data).hexdigest()
    assert len(world.ask(f"{BASE}big?mb=20", headers=BEARER).body) == 20 << 20


def test_a_body_that_is_refused_has_its_answer(world: World) -> None:
    with world.server.connect(
        f"PUT {BASE}early HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 1000000000\r\n\r\nbegun"
    ) as client:
        assert head_of(client).startswith("HTTP/1.1 413 ")


def test_who_is_gone_is_not_waited_for(world: World) -> None:
    for path in ("hangs", "stalls"):
        client = world.server.connect(
            f"GET {BASE}{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        )
        wait_until(lambda: world.server.server.server_state.tasks)
        wait_until(lambda: world.jupyter.asked)
        client.close()
        wait_until(lambda: not world.server.server.server_state.tasks)
        world.jupyter.asked.clear()


def test_a_jupyter_that_answers_badly_is_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("garbage", "smuggles", "lengthy", "odd", "switches"):
        reply = world.ask(BASE + path, headers=BEARER)
        assert (reply.status, reply.json["code"]) == (503, "target_unavailable"), path
        assert "makes no sense" in reply.json["detail"]
    reply = world.ask(f"{BASE}closes", headers=BEARER)
    assert (reply.status, "does not answer" in reply.text) == (503, True)
    assert "wherry compute restart nb" in reply.json["hint"]
    with pytest.raises(http.client.IncompleteRead):
        world.ask(f"{BASE}short", headers=BEARER)
    monkeypatch.setattr(limits, "ANSWER_S", 0.05)
    reply = world.ask(f"{BASE}hangs", headers=BEARER)
    assert (reply.status, "has not answered" in reply.text) == (503, True)


def test_where_it_is_started_again_it_is_found_again(world: World) -> None:
    assert world.ask(f"{BASE}x", headers=BEARER).status == 200
    asked = world.asked_for_door
    world.jupyter.stop()
    again = StandIn(Path(world.jupyter.path).with_name("t"))
    again.start()
    world.jupyter = again
    assert world.ask(f"{BASE}x", headers=BEARER).status == 200
    assert world.asked_for_door == asked + 1
    again.stop()
    assert world.ask(f"{BASE}x", headers=BEARER).status == 503


def test_while_it_starts_a_page_says_so_and_looks_again(world: World) -> None:
    cookie = world.cookie()
    world.states["nb"] = "Starting"
    page = world.ask(f"{BASE}lab", headers={**cookie, **PAGE})
    assert (page.status, page.headers["Content-Type"]) == (409, "text/html; charset=utf-8")
    assert "Compute instance &#x27;nb&#x27; is Starting." in page.text
    assert 'http-equiv="refresh"' in page.text
    told = world.ask(f"{BASE}api/kernels", headers=cookie)
    assert (told.status, told.json["code"]) == (409, "conflict")
    world.states["nb"] = "Stopped"
    stopped = world.ask(f"{BASE}lab", headers={**cookie, **PAGE}).text
    assert "is Stopped." in stopped
    assert 'http-equiv="refresh"' not in stopped
    world.states.clear()
    assert world.ask(f"{BASE}lab", headers={**cookie, **PAGE}).status == 200


def test_an_address_that_was_opened_lets_in_once(world: World) -> None:
    address = world.open()
    reply = world.ask(address)
    assert (reply.status, reply.headers["Location"]) == (303, f"{BASE}lab")
    attributes = reply.headers["Set-Cookie"].split("; ")[1:]
    assert sorted(attributes) == ["HttpOnly", "Max-Age=86400", f"Path={BASE}", "SameSite=lax"]
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    again = world.ask(address)
    assert (again.status, again.headers["Set-Cookie"]) == (401, None)
    assert "good once" in again.json["detail"]
    cookie = {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}
    assert world.ask(f"{BASE}lab", headers=cookie).status == 200
    assert world.ask(address, headers=cookie).headers["Location"] == f"{BASE}lab"
    assert world.jupyter.asked[-1].header("cookie") is None


def test_a_cookie_is_for_tls_alone_where_there_is_some(world: World) -> None:
    reply = world.ask(world.open(), headers={"X-Forwarded-Proto": "https"})
    assert "; Secure" in reply.headers["Set-Cookie"]


def test_a_code_is_good_for_a_minute_and_one_instance(world: World) -> None:
    code = world.open("other").partition("?")[2]
    assert world.ask(f"{BASE}?{code}").status == 401
    address, now = world.open(), world.plane.now
    world.plane.now = lambda: now() + timedelta(seconds=61)
    assert world.ask(address).status == 401
    assert world.ask(f"{BASE}?code=").status == 401
    assert world.ask(f"{BASE}?code=%00%ff").status in (400, 401)


def test_a_cookie_is_good_for_its_instance_until_it_ends(world: World) -> None:
    cookie, now = world.cookie(), world.plane.now
    assert world.ask(f"{BASE}x", headers=cookie).status == 200
    assert world.ask("/instances/w/other/x", headers=cookie).status == 401
    assert world.ask("/instances/w/nobody/x", headers=cookie).status == 401
    world.plane.now = lambda: now() + timedelta(hours=13)
    renewed = world.ask(f"{BASE}x", headers=cookie).headers["Set-Cookie"]
    world.plane.now = lambda: now() + timedelta(hours=25)
    assert world.ask(f"{BASE}x", headers=cookie).status == 401
    later = {"Cookie": renewed.partition(";")[0]}
    assert world.ask(f"{BASE}x", headers=later).status == 200


def test_a_cookie_that_was_changed_is_none(world: World) -> None:
    name, _, value = world.cookie()["Cookie"].partition("=")
    until, _, seal = value.partition(".")
    for wrong in (
        f"{int(until) + 1}.{seal}",
        f"{until}.{seal[:-1]}0" if seal[-1] != "0" else f"{until}.{seal[:-1]}1",
        f"{until}.",
        f".{seal}",
        seal,
        f"{until}é.{seal}",
        f"-{until}.{seal}",
        "9" * 5000,
        f"{until}.{instance_logins._seal(world.plane, 'other', int(until))}",
        TOKEN,
    ):
        reply = world.ask(f"{BASE}x", headers={"Cookie": f"{name}={wrong}"})
        assert reply.status == 401, wrong


def test_after_it_was_deleted_nobody_is_let_in(world: World) -> None:
    cookie, address = world.cookie(), world.open()
    world.remove("nb")
    wait_until(lambda: world.ask(f"{BASE}x", headers=cookie).status == 401)
    assert world.ask(address).status == 401
    world.add("nb")  # another one by that name
    assert world.ask(f"{BASE}x", headers=cookie).status == 401


def test_a_cookie_outlives_the_server(world: World) -> None:
    cookie = world.cookie()
    with Server(world.plane) as restarted:
        another = World(restarted, world.jupyter)
        assert another.ask(f"{BASE}x", headers=cookie).status == 200


def test_whose_token_lets_in(world: World) -> None:
    mine = instance_tokens.make(world.plane, world.row("nb"))
    assert world.ask(f"{BASE}x", headers={"Authorization": f"Bearer {mine}"}).status == 200
    elsewhere = "/instances/elsewhere/nb/x"
    assert world.ask(elsewhere, headers={"Authorization": f"Bearer {mine}"}).status == 403
    for wrong in ("Bearer wrong", f"Basic {TOKEN}", f"Token {TOKEN}", "Bearer "):
        assert world.ask(f"{BASE}x", headers={"Authorization": wrong}).status == 401
    assert len(world.jupyter.asked) == 1


def test_a_token_in_the_address_is_no_way_in_and_does_not_stay(world: World) -> None:
    refused = world.ask(f"{BASE}lab?token={TOKEN}")
    assert (refused.status, "logs" in refused.json["detail"]) == (401, True)
    moved = world.ask(f"{BASE}lab?a=1&token={TOKEN}&b=", headers={**world.cookie(), **PAGE})
    assert (moved.status, moved.headers["Location"]) == (303, f"{BASE}lab?a=1&b=")
    assert world.jupyter.asked == []


def test_who_is_not_let_in_is_told_how(world: World) -> None:
    page = world.ask(f"{BASE}lab", headers=PAGE)
    assert page.status == 401
    assert "wherry compute open nb" in page.text
    assert "script" not in page.text
    assert world.ask(f"{BASE}lab").json["hint"] == "open it with: wherry compute open nb"


def test_pages_of_others_change_nothing_and_hear_nothing(world: World) -> None:
    cookie = world.cookie()
    own = f"http://localhost:{world.port}"
    for origin, status in (
        (own, 200),
        ("http://evil.example", 403),
        (f"http://localhost:{world.port + 1}", 403),
        (f"http://127.0.0.1:{world.port}", 403),
        ("null", 403),
        ("", 403),
    ):
        reply = world.ask(f"{BASE}x", "POST", {**cookie, "Origin": origin}, b"")
        assert reply.status == status, origin
        with websocket(world, {**cookie, "Origin": origin}) as client:
            expected = "101" if status == 200 else str(status)
            assert head_of(client).split()[1] == expected, origin
    assert len(world.jupyter.asked) == 2


def test_a_websocket_passes_as_it_is(world: World) -> None:
    protocol = {"Sec-WebSocket-Protocol": "v1.kernel.websocket.jupyter.org, other"}
    with websocket(world, {**world.cookie(), **protocol}) as client:
        head = head_of(client).lower()
        assert head.startswith("http/1.1 101 ")
        assert "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in head
        assert "sec-websocket-protocol: v1.kernel.websocket.jupyter.org\r\n" in head
        assert heard(client, 5) == b"hello"
        said = os.urandom(1 << 16)
        for _ in range(20):
            client.sendall(said)
            assert heard(client, len(said)) == said
        traffic = world.plane.traffic["w/nb"]
        assert (traffic.websockets, traffic.last_closed_at) == (1, None)
    wait_until(lambda: traffic.websockets == 0)
    assert traffic.last_closed_at is not None
    wait_until(lambda: world.jupyter.open == 0)
    (asked,) = world.jupyter.asked
    assert asked.header("upgrade") == "websocket"
    assert asked.header("sec-websocket-version") == "13"


def test_a_websocket_wants_a_login_and_an_instance_that_runs(world: World) -> None:
    for headers, status in (
        ({}, "401"),
        ({"Authorization": "Bearer wrong"}, "401"),
        (BEARER, "101"),
    ):
        with websocket(world, headers) as client:
            assert head_of(client).split()[1] == status
    world.states["nb"] = "Stopped"
    wait_until(lambda: world.asked_for_door > 0)
    with websocket(world, BEARER, "closes") as client:
        assert head_of(client).split()[1] in ("101", "409")


def test_a_websocket_anywhere_else_is_a_plain_request(world: World) -> None:
    with world.server.connect(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
    ) as client:
        assert head_of(client).startswith("HTTP/1.1 200 ")


def test_many_websockets_outlive_the_patience_for_idle_ones(world: World) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(websocket(world, BEARER)) for _ in range(100)]
        for client in clients:
            assert head_of(client).split()[1] == "101"
            assert heard(client, 5) == b"hello"
        assert world.plane.traffic["w/nb"].websockets == 100
        for protocol in world.server.protocols:
            for _ in range(2 * limits.READER_S):
                protocol.check()  # as if so many seconds had passed
        for number, client in enumerate(clients):
            client.sendall(b"%03d" % number)
        assert [heard(client, 3) for client in clients] == [b"%03d" % n for n in range(100)]
    wait_until(lambda: world.plane.traffic["w/nb"].websockets == 0)
    wait_until(lambda: world.server.connections == 0)


def test_a_websocket_that_jupyter_does_not_read_ends_with_its_client(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READER_S", 0.5)
    with websocket(world, BEARER, "deaf") as client:
        assert head_of(client).split()[1] == "101"
        client.settimeout(0.2)
        with suppress(OSError):
            client.sendall(bytes(64 << 20))  # more than all buffers hold
    wait_until(lambda: world.plane.traffic["w/nb"].websockets == 0)
    wait_until(lambda: world.server.connections == 0)


def test_there_is_a_limit_to_what_is_passed_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "proxied", lambda: 1)
    with websocket(world, BEARER) as client:
        assert head_of(client).split()[1] == "101"
        reply = world.ask(f"{BASE}x", headers=BEARER)
        assert (reply.status, "passes on 1 requests" in reply.text) == (503, True)
    wait_until(lambda: world.ask(f"{BASE}x", headers=BEARER).status == 200)


def test_a_server_that_stops_closes_them(world: World) -> None:
    with (
        Server(world.plane) as stopped,
        websocket(World(stopped, world.jupyter), BEARER) as client,
    ):
        assert head_of(client).split()[1] == "101"
        assert heard(client, 5) == b"hello"
        stopped.server.should_exit = True
        assert heard(client, 1) == b""
    wait_until(lambda: world.jupyter.open == 0)


def test_no_way_of_writing_leads_to_another_instance(world: World) -> None:
    """The first one's cookie leads to the first one, which gets the address as it is."""
    mine, theirs = world.cookie("nb"), world.cookie("other")
    for path in (
        "/instances/w/nb/../other/x",
        "/instances/w/nb/%2e%2e/other/x",
        "/instances/w/nb/..%2fother/x",
        "/instances/w/nb/..%2Fother/x",
        "/instances/w/nb//other/x",
        "/instances/w/nb/%2e%2e%2fother%2fx",
        "/instances/w/nb/..\\other/x",
    ):
        reply = world.ask(path, headers=mine)
        assert (reply.status, reply.json["target"]) == (200, path)
        assert world.ask(path, headers=theirs).status == 401, path


def test_other_ways_of_writing_lead_nowhere(world: World) -> None:
    cookie = world.cookie()
    for path in (
        "/instances/",
        "/instances//nb/x",
        "/instances/w//x",
        "/instances/w%2Fnb/x/",
        "/instances/w/nb%2F..%2Fother/x",
        "/instances/w%2Fnb/other/x",
        "//instances/w/nb/x",
        "/instances/./w/nb/x",
        "/instances%2Fw/nb/x",
        "/%69nstances/w/nb/x",
        "/view/../instances/w/nb/x",
    ):
        assert world.ask(path, headers=cookie).status in (400, 401, 404), path
    assert world.jupyter.asked == []


def test_a_request_in_a_request_is_not_passed_on(world: World) -> None:
    owner = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    for head in (
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "X: a\r\n b\r\n",
        "X : a\r\n",
        "X\0: a\r\n",
    ):
        with world.server.connect(
            f"POST {BASE}x HTTP/1.1\r\n{owner}{head}\r\n0\r\n\r\nGET {BASE}smuggled HTTP/1.1\r\n"
        ) as client:
            assert head_of(client).split()[1] in ("400", "431"), head
    assert world.jupyter.asked == []


def test_the_page_and_notebooks_have_different_names(world: World) -> None:
    """To a browser they are strangers: no script of a notebook reads what the page keeps."""
    address = world.open()
    moved = world.ask(address, headers=PAGE, host="127.0.0.1")
    assert moved.headers["Location"] == f"http://localhost:{world.port}{address}"
    assert moved.headers["Set-Cookie"] is None
    assert world.ask(address, headers=PAGE).headers["Set-Cookie"]
    view = world.ask("/view/")
    assert view.headers["Location"] == f"http://127.0.0.1:{world.port}/view/"
    assert world.ask("/view/index.html").headers["Location"] == view.headers["Location"]
    assert world.ask("/view/", host="127.0.0.1").status == 200


def test_what_is_no_instance_cannot_be_opened(world: World) -> None:
    reply = world.ask("/api/v1/workspaces/w/computes/nobody/open", "POST", BEARER)
    assert reply.status == 404
    reply = world.ask("/api/v1/workspaces/w/computes/nb/open", "POST")
    assert reply.status == 401


def test_an_address_without_its_last_slash(world: World) -> None:
    assert world.ask("/instances/w/nb").headers["Location"] == BASE
