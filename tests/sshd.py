"""Real SSH servers of the tests' own, on loopback addresses, with keys and files of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from wherry.drivers.ssh_host import Host

_PATIENCE_S = 60
_CONFIG = """\
ListenAddress {address}
Port {port}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel VERBOSE
MaxStartups 100:30:200
PerSourcePenalties no
SetEnv HOME={home} WHERRY_CACHE={cache}
"""


def program() -> str | None:
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


def missing() -> str:
    """What keeps a server from being started here; empty if nothing does."""
    if program() is None:
        return "sshd is not installed"
    return "" if shutil.which("ssh-keygen") else "ssh-keygen is not installed"


class Sshd:
    """One server. ``home`` is the home of whoever logs in, whoever that is."""

    def __init__(
        self,
        folder: Path,
        address: str = "127.0.0.1",
        cache: Path | None = None,
        inside: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        """``inside`` is a command that starts it elsewhere, in a network of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.address = address
        self.port = port or _free_port(address)
        self._inside = list(inside)
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.cache = cache or folder / "cache"
        self.options: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        make_key(folder / "host_key")
        make_key(folder / "key")
        shutil.copy(folder / "key.pub", folder / "authorized_keys")

    @property
    def key(self) -> str:
        return (self.folder / "key").read_text()

    @property
    def host_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def host(self, **fields: object) -> Host:
        given = {"private_key": self.key, "host_key": self.host_key, "user": user(), **fields}
        return Host(self.address, self.port, **given)  # type: ignore[arg-type]

    def start(self, options: Mapping[str, str] | None = None) -> None:
        """``options`` come before those that every server here has: the first one counts."""
        self.options = dict(options or self.options)
        path = self.folder / "sshd_config"
        given = "".join(f"{name} {value}\n" for name, value in self.options.items())
        path.write_text(given + _supported(self._config()))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        argv = [
            *self._inside,
            str(program()),
            "-D",
            "-f",
            str(path),
            "-E",
            str(self.folder / "log"),
        ]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        until(self._answers)

    def stop(self) -> None:
        """No more connections are taken; those that are open go on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def sessions(self) -> list[psutil.Process]:
        """The processes of open connections."""
        if self._process is None:
            return []
        return psutil.Process(self._process.pid).children()

    def drop(self) -> None:
        """End every open connection, as a cut network does in the end."""
        for session in self.sessions():
            with suppress(psutil.Error):  # it ended by itself
                for process in [session, *session.children()]:
                    if "sshd" in process.name():
                        process.send_signal(signal.SIGKILL)

    def logins(self) -> int:
        """How many connections were ever let in."""
        log = (self.folder / "log").read_text()
        return len(re.findall(r"^Accepted (?:publickey|password) for ", log, re.MULTILINE))

    def refusals(self) -> int:
        """How often a key was not let in."""
        return (self.folder / "log").read_text().count("Failed publickey for ")

    def _config(self) -> str:
        return _CONFIG.format(
            address=self.address,
            port=self.port,
            folder=self.folder,
            home=self.home,
            cache=self.cache,
        )

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            socket.create_connection((self.address, self.port), 1).close()
        except OSError:
            return False
        return True


@contextmanager
def serving(
    folder: Path,
    address: str = "127.0.0.1",
    cache: Path | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[Sshd]:
    sshd = Sshd(folder, address, cache)
    try:
        sshd.start(options)
        yield sshd
    finally:
        sshd.drop()
        sshd.stop()


def user() -> str:
    return psutil.Process().username()


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> None:
    path.unlink(missing_ok=True)
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)]
    subprocess.run(argv, check=True)


def until(holds: object, patience_s: float = _PATIENCE_S) -> None:
    give_up_at = time.monotonic() + patience_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.02)


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _supported(config: str) -> str:
    """Without what an older sshd does not know."""
    done = subprocess.run([str(program()), "-V"], capture_output=True, text=True)
    version = done.stderr.partition("OpenSSH_")[2][:3]
    known = version.replace(".", "").isdigit() and float(version) >= 9.8
    lines = config.splitlines(keepends=True)
    return "".join(line for line in lines if known or not line.startswith("PerSourcePenalties"))
