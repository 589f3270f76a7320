"""Names under which the server answers, and those of others that lead here."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.planes import make_plane
from wherry.api.app import create_app
from wherry.api.hosts import Hosts
from wherry.drivers.memory import MemoryDriver

FOREIGN = [
    "evil.example",
    "evil.example:8700",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io:80",
    "evil.example:localhost",
    "user@localhost",
    "localhost, evil.example",
    "[evil.example]",
    "[::1",
    "ｌocalhost",
    ".",
    ":80",
]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0", "lab.example"])
def test_foreign_names(bound: str, host: str) -> None:
    assert not Hosts(bound).allows(host.encode())


@pytest.mark.parametrize(
    "host",
    ["", "localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:8700", "127.8.9.1", "[::1]:80"],
)
def test_names_of_this_machine(host: str) -> None:
    assert Hosts("127.0.0.1").allows(host.encode())
    assert Hosts("127.0.0.1").allows(host.encode())


def test_the_address_that_it_listens_on() -> None:
    assert Hosts("Lab.example").allows(b"lab.example:8700")
    assert Hosts("10.1.2.3").allows(b"10.1.2.3:8700")
    assert not Hosts("10.1.2.3").allows(b"10.1.2.4:8700")
    everywhere = Hosts("0.0.0.0")
    assert everywhere.allows(b"10.1.2.4:8700")
    assert everywhere.allows(socket.gethostname().encode())


def test_names_that_are_set() -> None:
    hosts = Hosts("127.0.0.1", "lab.example, Proxy.example")
    assert hosts.allows(b"proxy.example:443")
    assert not hosts.allows(b"other.example")
    assert Hosts("127.0.0.1", "*").allows(b"anything")


def test_a_foreign_page_learns_nothing(tmp_path: Path) -> None:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    with TestClient(create_app(plane, reconcile=False)) as client:
        for path in ("/api/v1/health", "/health", "/view/", "/nowhere", "/api/v1/workspaces"):
            reply = client.get(path, headers={"Host": "evil.example"})
            assert reply.status_code == 421
            assert reply.json()["code"] == "wrong_host"
            assert "WHERRY_ALLOWED_HOSTS" in reply.json()["hint"]
