"""Servers for the tests of this folder."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sshd as servers
from tests.sshd import Sshd


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


class Network:
    """One of its own, that reaches nothing; this machine reaches it by one wire."""

    def __init__(self, name: str, address: str, ours: str) -> None:
        self.name = name
        self.address = address
        self._ours = ours

    def make(self) -> None:
        wire = self.name[:15]
        ip("netns", "add", self.name)
        ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{self._ours}/30", "dev", wire)
        ip("link", "set", wire, "up")
        for words in (
            ("addr", "add", f"{self.address}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", self.name, *words)

    def cut(self) -> None:
        ip("-n", self.name, "link", "set", "eth0", "down")

    def heal(self) -> None:
        ip("-n", self.name, "link", "set", "eth0", "up")

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip())


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(f"wherry-{secrets.token_hex(4)}", "10.213.47.2", "10.213.47.1")
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
    if os.getuid() != 0:
        pytest.skip("users are made by root alone")
    name, password = f"wherry-{secrets.token_hex(4)}", secrets.token_hex(8)
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=password, capture_output=True, text=True
    )
    if hashed.returncode:
        pytest.skip("openssl makes no password here")
    useradd = ["useradd", "--no-create-home", "--shell", "/bin/sh", "-p", hashed.stdout.strip()]
    made = subprocess.run([*useradd, name], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no user can be made here: {made.stderr.strip()}")
    yield name, password
    subprocess.run(["pkill", "-KILL", "-u", name])
    subprocess.run(["userdel", name], capture_output=True)


def _needs_sshd() -> None:
    missing = servers.missing()
    if missing:
        pytest.skip(f"there is no SSH server here: {missing}")
