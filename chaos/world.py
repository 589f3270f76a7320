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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from wherry.sdk.server import HomeServer

_OURS = ("WHERRY_HOME", "WHERRY_CACHE", "CHAOS_LEDGER")


class World:
    """Everything of one drill lies in ``folder``. The server starts when someone needs it."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self.folder = folder
        self.home = home or folder / "home"
        self.cache = folder / "cache"
        self.ledger = folder / "ledger"
        self.source = folder / "source"
        self.source.mkdir(exist_ok=True)
        self.ledger.touch()

    @property
    def variables(self) -> dict[str, str]:
        return {
            "WHERRY_HOME": str(self.home),
            "WHERRY_CACHE": str(self.cache),
            "CHAOS_LEDGER": str(self.ledger),
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

    def runner_pids(self) -> list[int]:
        found = []
        for path in self.home.glob("nodes/local/*/started"):
            with suppress(OSError, ValueError, KeyError):
                pid = int(json.loads(path.read_text())["pid"])
                if pid and _alive(pid):
                    found.append(pid)
        return found

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
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        server = self.server_pid()
        if server is not None:
            os.kill(server, signal.SIGCONT)
        HomeServer(str(self.home)).stop()


@contextmanager
def new_world(home: Path | None = None) -> Iterator[World]:
    """A world in a folder of its own; this process becomes its client."""
    folder = Path(tempfile.mkdtemp(prefix="wherry-chaos-"))
    saved = {name: os.environ.get(name) for name in _OURS}
    world = World(folder, home)
    os.environ.update(world.variables)
    try:
        yield world
    finally:
        with suppress(Exception):
            world.stop()
        for process in world.processes():
            with suppress(psutil.Error):
                process.kill()
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:.0f} s")
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
