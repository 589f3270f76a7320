"""The promises of every driver, kept over a real SSH server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interpreters import find_python
from tests.sshd import Sshd
from wherry.drivers.ssh import SshDriver
from wherry.testing.driver_contract import DriverContract, MakeDriver
from wherry.testing.evidence import ODD


class TestSsh(DriverContract):
    @pytest.fixture
    def make_driver(self, sshd: Sshd, tmp_path: Path) -> Iterator[MakeDriver]:
        made: list[SshDriver] = []

        def make() -> SshDriver:
            made.append(SshDriver(sshd.host(), str(tmp_path / "nodes")))
            return made[-1]

        yield make
        for driver in made:
            driver.close()


@pytest.mark.ssh
class TestSshInAnOddPlace(DriverContract):
    """An old Python, a folder with a name that shells take apart, runners one by one."""

    nursery = False

    @pytest.fixture
    def make_driver(self, sshd: Sshd, tmp_path: Path) -> Iterator[MakeDriver]:
        self.python = find_python("3.8")
        host = sshd.host(python=self.python)
        made: list[SshDriver] = []

        def make() -> SshDriver:
            made.append(SshDriver(host, str(tmp_path / ODD)))
            return made[-1]

        yield make
        for driver in made:
            driver.close()
