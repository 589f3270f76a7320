"""One home with its server and runs, and hands on its processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.podman import Podman
from tests.sshd import Sshd

from chaos.patience import awake_s
from wherry.sdk.connection import forget
from wherry.sdk.server import HomeServer


class Unavailable(Exception):
    """This machine cannot hold the drill; the message says why."""


@dataclass(frozen=True)
class Stage:
    """What a drill needs before there is a server: a home of its own kind, variables, machines."""

    variables: Mapping[str, str] = field(default_factory=dict)
    hosts: Sequence[Sshd] = ()
    engine: Podman | None = None


Staging = Callable[[Path], AbstractContextManager[Stage]]
"""Sets the stage in a world's folder, whose home is the subfolder ``home``."""


class World:
    """Everything of one drill lies in ``folder``. The server starts when someone needs it."""

    def __init__(self, folder: Path, stage: Stage) -> None:
        self.folder = folder
        self.hosts = stage.hosts
        self.engine = stage.engine
        self.home = folder / "home"
        self.ledger = folder / "ledger"
        self.source = folder / "source"
        self.temporary = folder / "tmp"
        for place in (self.source, self.temporary):
            place.mkdir(exist_ok=True)
        self.ledger.touch()
        self.variables = {
            "WHERRY_HOME": str(self.home),
            "WHERRY_CACHE": str(folder / "cache"),
            "CHAOS_LEDGER": str(self.ledger),
            "TMPDIR": str(self.temporary),
            **stage.variables,
        }

    def python(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A client process of its own."""
        env = {**os.environ, **self.variables}
        return subprocess.Popen([sys.executable, *arguments], env=env, stderr=subprocess.DEVNULL)

    def start_server(self) -> None:
        HomeServer(str(self.home), start_timeout_s=120).ensure()

    def server_pid(self) -> int | None:
        try:
            pid = int(json.loads((self.home / "server.json").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None
        return pid if _alive(pid) else None

    def nursery_pids(self) -> list[int]:
        """The process, if any, from which the server has its runners. They look the same."""
        server = self.server_pid()
        with suppress(psutil.Error):
            below = psutil.Process(server).children() if server else []
            return [each.pid for each in below if "--nursery" in _command(each)]
        return []

    def group(self, runner: int) -> list[int]:
        """The runner and all that it started."""
        with suppress(psutil.Error):
            below = psutil.Process(runner).children(recursive=True)
            return [runner, *(each.pid for each in below)]
        return []

    def runner_pids(self) -> list[int]:
        found = []
        for path in self.home.glob("nodes/*/*/started"):
            with suppress(OSError, ValueError, KeyError):
                pid = int(json.loads(path.read_text())["pid"])
                if pid and _alive(pid):
                    found.append(pid)
        return found

    def attempt_folders(self) -> list[Path]:
        """On the machine itself and on nodes that are slots of it."""
        return [path for path in self.home.glob("nodes/*/[!.]*") if path.is_dir()]

    def node_folders(self) -> list[Path]:
        """Of slots that a cluster has on this machine."""
        found = self.home.glob("nodes/[!.]*")
        return [path for path in found if path.is_dir() and path.name != "local"]

    def processes(self) -> list[psutil.Process]:
        """Whatever belongs to this home, but this process."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get("WHERRY_HOME") == str(self.home):
                    found.append(process)
        return [each for each in found if each.pid != os.getpid() and _alive(each.pid)]

    def stop(self) -> None:
        for pid in self.runner_pids():
            send(pid, signal.SIGCONT)
        send(self.server_pid(), signal.SIGCONT)
        HomeServer(str(self.home)).stop(timeout_s=120)


@contextmanager
def new_world(staging: Staging | None = None) -> Iterator[World]:
    """A world in a folder of its own; this process becomes its client."""
    folder = Path(tempfile.mkdtemp(prefix="wherry-chaos-"))
    try:
        with staging(folder) if staging else nullcontext(Stage()) as stage:
            world = World(folder, stage)
            with _environment(world.variables):
                try:
                    yield world
                finally:
                    _end(world)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(world: World) -> None:
    with suppress(Exception):
        world.stop()
    for process in world.processes():
        with suppress(psutil.Error):
            process.kill()
    forget()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    saved = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def send(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def pause(pids: Sequence[int | None], seconds: float) -> None:
    """Stopped, not dead."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        send(pid, signal.SIGCONT)


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = 120) -> None:
    deadline = awake_s() + timeout_s
    while not holds():
        if awake_s() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:.0f} s")
        time.sleep(0.05)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
