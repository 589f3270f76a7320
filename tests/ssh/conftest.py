"""Servers for the tests of this folder."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sshd as servers
from tests.networks import Network
from tests.sshd import Sshd
from tests.users import User


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    _needs_sshd()
    folder = tmp_path_factory.mktemp("sshd")
    with servers.serving(folder, "127.0.0.2") as sshd:
        yield sshd


@pytest.fixture
def sshd(shared_sshd: Sshd) -> Sshd:
    """One that is used as it is, by all tests that change nothing of it."""
    return shared_sshd


@pytest.fixture
def own_sshd(tmp_path: Path, shared_sshd: Sshd) -> Iterator[Sshd]:
    """One that the test starts itself, and may do anything to."""
    sshd = Sshd(tmp_path / "own", "127.0.0.3", shared_sshd.cache)
    yield sshd
    sshd.drop()
    sshd.stop()


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    try:
        network.make()
    except OSError as error:
        network.remove()
        pytest.skip(f"no network of its own can be made here: {error}")
    yield network
    network.remove()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="wherry-sshd-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def throwaway_user() -> Iterator[tuple[str, str]]:
    """A user of this machine, and the password."""
    user = User()
    try:
        user.make()
    except OSError as error:
        pytest.skip(str(error))
    yield user.name, user.password
    user.remove()


def _needs_sshd() -> None:
    missing = servers.missing()
    if missing:
        pytest.skip(f"there is no SSH server here: {missing}")
