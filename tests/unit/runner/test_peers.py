"""A port that was forwarded to the server may be anybody's when the connection is lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from wherry.runner import peers
from wherry.runner.connection import Connection, NetworkError
from wherry.runner.peers import is_strange
from wherry.runner.shipping import AwayError, Shipper
from wherry.sdk.client import Address, Client
from wherry.sdk.transport import Unreachable

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/net/tcp"), reason="nodes are Linux machines"
)

OTHER = 54321
LISTEN = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    taken, _ = server.accept()
    taken.settimeout(60)
    try:
        print("heard", len(taken.recv(1000)), flush=True)
    except OSError:
        pass
    taken.close()
"""


class Squatter:
    def __init__(self) -> None:
        argv = [sys.executable, "-c", LISTEN, str(OTHER)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def heard(self) -> str:
        """How much it was told by whoever came last."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def squatter() -> Iterator[Squatter]:
    if os.getuid() != 0:
        pytest.skip("only root may become another user")
    squatter = Squatter()
    yield squatter
    squatter.process.kill()
    squatter.process.wait()
    assert squatter.process.stdout is not None
    squatter.process.stdout.close()


def test_one_s_own_program_is_not_strange() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as waiting:
        assert not is_strange(waiting)
        server.accept()[0].close()
        assert not is_strange(waiting)


@pytest.mark.parametrize("address", ["", "::"])
def test_programs_that_listen_at_every_address_are_found(address: str) -> None:
    family = socket.AF_INET6 if address else socket.AF_INET
    try:
        server = socket.create_server(
            (address, 0), family=family, dualstack_ipv6=family == socket.AF_INET6
        )
    except (OSError, ValueError):
        pytest.skip("there is no such address here")
    with server, socket.create_connection(("127.0.0.1", server.getsockname()[1])) as waiting:
        assert not is_strange(waiting)
        with server.accept()[0]:
            assert not is_strange(waiting)


def test_a_listener_that_went_away_is_strange(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been anybody's."""
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as waiting:
        monkeypatch.setattr(peers, "_sockets", lambda _path: [])
        assert is_strange(waiting)


def test_no_runner_says_a_word_to_another_user(squatter: Squatter) -> None:
    with pytest.raises(NetworkError, match="a program of another user"):
        Connection(squatter.url, tunnel=True).request("GET", "/", "Authorization: Bearer x\r\n")
    assert squatter.heard() == "heard 0"
    shipper = Shipper(squatter.url, "token", patience_s=0.0, tunnel=True)
    with pytest.raises(AwayError, match="another user"):
        shipper.report("a1", stage="running")
    assert squatter.heard() == "heard 0"


def test_no_script_says_a_word_to_another_user(
    squatter: Squatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_SERVER_USER", str(os.getuid()))
    with pytest.raises(Unreachable, match="a program of another user"):
        Client(Address(squatter.url, "token"))._exchange("GET", "/x", None, {}, 10.0)
    assert squatter.heard() == "heard 0"
    monkeypatch.setenv("WHERRY_SERVER_USER", str(OTHER))
    with pytest.raises(Unreachable):
        Client(Address(squatter.url, "token"))._exchange("GET", "/x", None, {}, 10.0)
    assert squatter.heard() != "heard 0"
