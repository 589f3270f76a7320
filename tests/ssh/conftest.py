"""Servers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import sshd as servers
from tests.sshd import Sshd


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    missing = servers.missing()
    if missing:
        pytest.skip(f"there is no SSH server here: {missing}")
    folder = tmp_path_factory.mktemp("sshd")
    with servers.serving(folder, "127.0.0.2") as sshd:
        yield sshd


@pytest.fixture
def sshd(shared_sshd: Sshd) -> Sshd:
    """One that is used as it is, by all tests that change nothing of it."""
    return shared_sshd
