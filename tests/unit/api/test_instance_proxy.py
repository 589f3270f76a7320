"""What is passed on to a compute instance, and what is not."""

from __future__ import annotations

import hashlib
import http.client
import os
from pathlib import Path

import pytest

from tests.homes import wait_until
from tests.planes import TOKEN
from tests.stand_in import StandIn
from tests.unit.api.instance_world import (
    BASE,
    BEARER,
    JUPYTER_TOKEN,
    PAGE,
    World,
    head_of,
    world,
)
from wherry.api import limits

__all__ = ["world"]


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


def test_an_address_without_its_last_slash(world: World) -> None:
    assert world.ask("/instances/w/nb").headers["Location"] == BASE
