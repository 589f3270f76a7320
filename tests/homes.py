"""A home of its own for every test, and a check that nothing is left running in it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from wherry import Experiment, Run, ScriptRunConfig, Workspace
from wherry.sdk.server import HomeServer


class Home:
    """One embedded server and the runs that a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.source.mkdir()

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def script(self, text: str, name: str = "train.py") -> Path:
        path = self.source / name
        path.write_text(text)
        return path

    def submit(self, text: str, *arguments: str, **options: object) -> Run:
        self.script(text)
        workspace = Workspace.create("w", exist_ok=True)
        config = ScriptRunConfig(str(self.source), "train.py", list(arguments), **options)  # type: ignore[arg-type]
        return Experiment(workspace, "e").submit(config)

    def server_pid(self) -> int:
        return int(json.loads((self.home / "server.json").read_text())["pid"])

    def kill_server(self) -> None:
        """As a power cut would."""
        pid = self.server_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(pid) or _is_zombie(pid))

    def processes(self) -> list[psutil.Process]:
        """Everything alive that belongs to this home."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("WHERRY_HOME") == str(self.home):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return [process for process in found if process.pid != os.getpid()]

    def running(self, word: str) -> list[psutil.Process]:
        """Those with the word in their command line."""
        return [each for each in self.processes() if word in _command(each)]

    def nurseries(self) -> list[psutil.Process]:
        """Those that start runners; each ends by itself soon after its server."""
        return self.running("--nursery")


def wait_until(holds: Callable[[], object], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with living(tmp_path, monkeypatch) as home:
        yield home


@contextmanager
def living(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    home = Home(folder)
    monkeypatch.setenv("WHERRY_HOME", str(home.home))
    monkeypatch.setenv("WHERRY_CACHE", str(folder / "cache"))
    for name in ("WHERRY_SERVER", "WHERRY_TOKEN", "WHERRY_WORKSPACE", "WHERRY_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    yield home
    HomeServer(str(home.home)).stop()
    with suppress(AssertionError):
        wait_until(lambda: not home.processes())
    leftover = home.processes()
    for process in leftover:
        process.kill()
    assert leftover == []
