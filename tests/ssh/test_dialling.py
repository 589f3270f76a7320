"""A unix socket of a machine over SSH, reached from here."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import dialling
from tests.sshd import Sshd, until
from wherry.core.errors import TargetUnavailableError
from wherry.drivers.ssh import SshDriver


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
        yield Path(folder)


@pytest.fixture
def driver(sshd: Sshd, folder: Path) -> Iterator[SshDriver]:
    driver = SshDriver(sshd.host(), str(folder / "nodes"))
    yield driver
    driver.close()


def test_it_leads_there_and_is_for_this_user_alone(driver: SshDriver, folder: Path) -> None:
    dialling.keeps_its_promises(driver, folder)
    here = Path(driver.dial(str(folder / "echo")))
    assert here.parent.stat().st_mode & 0o077 == 0
    driver.close()
    until(lambda: not here.parent.exists())


def test_where_nobody_listens_the_connection_ends(driver: SshDriver, folder: Path) -> None:
    with dialling.connected(driver.dial(str(folder / "nothing"))) as connection:
        assert connection.recv(1) == b""


def test_who_hangs_up_is_not_waited_for(driver: SshDriver, folder: Path) -> None:
    """Also where the program there takes nothing, and never ends."""
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(folder / "deaf"))
        deaf.listen()
        here = driver.dial(str(folder / "deaf"))
        link = driver._shared.line._link
        assert link is not None
        with dialling.connected(here) as connection:
            connection.sendall(b"x")
            until(lambda: link.agent.streams._streams)
        until(lambda: not link.agent.streams._streams)


def test_after_a_lost_connection_the_same_socket_leads_there(own_sshd: Sshd, folder: Path) -> None:
    own_sshd.start()
    driver = SshDriver(own_sshd.host(), str(folder / "nodes"))
    with dialling.echoing(folder / "echo") as path:
        here = driver.dial(str(path))
        with dialling.connected(here) as connection:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
            own_sshd.drop()
            assert connection.recv(1) == b""
        assert dialling.there_and_back(here, b"again") == b"again"
    driver.close()


def test_a_machine_that_cannot_be_reached_is_told_of(own_sshd: Sshd, folder: Path) -> None:
    driver = SshDriver(own_sshd.host(), str(folder / "nodes"))
    with pytest.raises(TargetUnavailableError, match="nothing listens at port"):
        driver.dial("/x")
    driver.close()
