"""Websockets of compute instances through the server."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress

import pytest

from tests.fuzz.test_connections import Server
from tests.homes import wait_until
from tests.unit.api.instance_world import (
    BASE,
    BEARER,
    World,
    head_of,
    heard,
    websocket,
    world,
)
from wherry.api import limits
from wherry.api.websocket_edges import GOING_AWAY, Edges

__all__ = ["world"]


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


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        (b"", GOING_AWAY),
        (b"\x81\x05hello", GOING_AWAY),
        (b"\x81\x7e\x01\x00" + b"x" * 255, b""),  # the last byte of a frame is to come
    ],
)
def test_a_server_that_stops_says_so_where_it_interrupts_nothing(
    world: World, said: bytes, ending: bytes
) -> None:
    with (
        Server(world.plane) as stopped,
        websocket(World(stopped, world.jupyter), BEARER, "quiet") as client,
    ):
        assert head_of(client).split()[1] == "101"
        client.sendall(said)
        assert heard(client, len(said)) == said
        stopped.server.should_exit = True
        assert heard(client, 100) == ending
    wait_until(lambda: world.jupyter.open == 0)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100_000])
def test_edges_of_frames_are_known_however_they_arrive(piece: int) -> None:
    whole = [
        b"\x89\x00",
        b"\x81\x05hello",
        b"\x82\x7e" + (300).to_bytes(2, "big") + bytes(300),
        b"\x82\x7f" + (70_000).to_bytes(8, "big") + bytes(70_000),
        b"\x81\x83mask" + b"abc",
    ]
    edges = Edges()
    for frame in whole:
        assert edges.between
        for at in range(0, len(frame), piece):
            edges.feed(frame[at : at + piece])
            assert edges.between is (at + piece >= len(frame))
    edges.feed(b"".join(whole))
    assert edges.between
