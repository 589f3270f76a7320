"""From asking for a compute instance to a JupyterLab that answers, beside JupyterLab by hand."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.environments import find_uv
from benchmarks.measure import Row, command, medians_s, ratio_row, server_home
from wherry import Workspace
from wherry.compute import ComputeInstance, ComputeTarget
from wherry.control import curated

COLD, WARM = 2, 5
_BASE = getattr(sys, "_base_executable", sys.executable)
_ENVIRONMENT = "Wherry-jupyter"
_ASK_EVERY_S = 0.05
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # where it is set, each start would take twice as long
_PATIENCE_S = 600.0


def rows() -> list[Row]:
    with server_home() as folder:
        ours, theirs = Instances(folder / "cache"), ByHand(folder)
        anew = _both(ours.forget, theirs.forget)
        cold = [medians_s(ours.create, theirs.install_and_start, 1, anew) for _ in range(COLD)]
        made_s, by_hand_s = (min(each[side] for each in cold) for side in (0, 1))
        between = _both(ours.delete, theirs.stop)
        warm_s, bare_s = medians_s(ours.create, theirs.start, WARM, between)
        between()
    what = "compute instance, create to JupyterLab answering through the server"
    installing = "uv venv && uv pip install && jupyter lab"
    return [
        ratio_row(f"{what}, nothing cached", made_s, installing, by_hand_s, at_most=1.5),
        ratio_row(f"{what}, its environment there", warm_s, "jupyter lab", bare_s, at_most=1.3),
    ]


class Instances:
    """One after the other, each on this machine."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._workspace = Workspace.create("bench", exist_ok=True)
        self._names = (f"nb{number}" for number in count())
        self._instance: ComputeTarget | None = None

    def create(self) -> None:
        name = next(self._names)
        config = ComputeInstance.provisioning_configuration()
        self._instance = ComputeInstance.create(self._workspace, name, config)
        client = self._workspace._client
        where, headers = urlsplit(client.url), {"Authorization": f"Bearer {client.token}"}
        path = f"/instances/bench/{name}/api/status"
        _until_it_answers(
            lambda: http.client.HTTPConnection(str(where.hostname), where.port), path, headers
        )

    def delete(self) -> None:
        if self._instance is not None:
            self._instance.delete()
            self._instance.wait_for_completion(is_delete_operation=True)
        self._instance = None

    def forget(self) -> None:
        """All that was installed."""
        self.delete()
        shutil.rmtree(self._cache, ignore_errors=True)


class ByHand:
    """The same packages, and JupyterLab on a socket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "by-hand"
        self._process: subprocess.Popen[bytes] | None = None

    def install_and_start(self) -> None:
        conda = curated.get("bench", _ENVIRONMENT, None).specification["python"]["conda"]
        packages = conda["dependencies"][-1]["pip"]
        cache = ["--cache-dir", str(self._folder / "cache")]
        command(find_uv(), "venv", *cache, "-p", _BASE, self._folder / "env")()
        python = self._folder / "env/bin/python"
        command(find_uv(), "pip", "install", *cache, "-p", python, *packages)()
        self.start()

    def start(self) -> None:
        path = self._folder / "socket"
        options = {"ServerApp.sock": path, "ServerApp.open_browser": False}
        options |= {"ServerApp.allow_root": True, "IdentityProvider.token": ""}
        words = [f"--{name}={value}" for name, value in options.items()]
        self._process = subprocess.Popen(
            [self._folder / "env/bin/python", "-m", "jupyterlab", *words],
            cwd=self._folder,
            env={name: os.environ[name] for name in os.environ if name != _NO_BYTECODE},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _until_it_answers(lambda: _OnSocket(str(path)), "/api/status", {})

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._process = None

    def forget(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()


class _OnSocket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def _until_it_answers(
    connect: Callable[[], http.client.HTTPConnection], path: str, headers: dict[str, str]
) -> None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        assert time.monotonic() < until, path
        connection = connect()
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            if answer.status == http.client.OK and b"kernels" in answer.read():
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(_ASK_EVERY_S)


def _both(*acts: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        for each in acts:
            each()

    return act
