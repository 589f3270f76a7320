"""The runner dies at any of its requests to the engine: no container stays, no command runs twice.

For each request on the way to a container it is killed just before the engine gets the request,
and just before it hears the answer.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.builds.index import Index, serve
from tests.containers.relay import relaying
from tests.containers.test_runs import Node, _launch, build_log, said, until
from tests.podman import BASE, Podman
from wherry.core.lifecycle import ExitRecord, Phase
from wherry.drivers.base import Handle, Launch

OWN = Path(__file__).resolve().parents[2] / ".tools" / "bin"
RUN = ["sh", "-c", "echo ran >>trace; sleep 0.2; exit 4"]


class Killer:
    """Kills the runner at one request, once; ``held`` keeps that request until it is let go."""

    def __init__(self, root: Path, request: str, moment: str) -> None:
        self._root = root
        self._wanted = (request, moment)
        self.done = threading.Event()
        self.held = threading.Event()
        self.held.set()

    def __call__(self, line: str, moment: str) -> None:
        request, when = self._wanted
        path = line.partition(" HTTP")[0]
        if self.done.is_set() or moment != when or request not in path:
            return
        for started in self._root.glob("*-*/started"):
            os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)
        self.done.set()
        self.held.wait(60)


class Scene:
    def __init__(self, podman: Podman, folder: Path, stack: ExitStack) -> None:
        self.podman = podman
        self.node = Node(folder / "nodes")
        self._folder = folder
        self._stack = stack

    def kill_at(self, request: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> Killer:
        killer = Killer(self._folder / "nodes", request, moment)
        short = self._stack.enter_context(TemporaryDirectory(prefix="wherry-relay-"))
        relay = relaying(Path(short) / "relay.sock", self.podman.host, killer)
        monkeypatch.setenv("DOCKER_HOST", self._stack.enter_context(relay))
        return killer

    def submit(self, launch: Launch) -> tuple[Handle, Path]:
        return self.node.driver.submit(launch), self._folder / "nodes" / launch.attempt_id

    def rescue(self, launch: Launch, handle: Handle) -> ExitRecord:
        """As the server does, once it sees that the runner is gone."""

        def gone() -> bool:
            seen = self.node.driver.observe([handle])[handle]
            return seen.phase is Phase.GONE or "runner is gone" in seen.detail

        until(gone)
        assert self.node.driver.rescue(launch)
        return self.node.end_of(handle)

    def nothing_left(self) -> bool:
        self.node.driver.check()
        return self.podman("ps", "--all", "--quiet") == ""


@pytest.fixture
def scene(podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{OWN}:{os.environ['PATH']}")
    with ExitStack() as stack:
        yield Scene(podman, tmp_path, stack)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("request_line", ["/containers/create", "/start"])
def test_killed_on_the_way_to_its_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, request_line: str, moment: str
) -> None:
    killer = scene.kill_at(request_line, moment, monkeypatch)
    launch = _launch(RUN, {"enabled": True, "image": BASE})
    handle, folder = scene.submit(launch)
    until(killer.done.is_set)
    record = scene.rescue(launch, handle)
    trace = folder / "work" / "trace"
    if request_line == "/start":
        assert not record.unstarted
        assert (record.exit_code, trace.read_text()) == (4, "ran\n")
    else:
        assert (record.lost, record.unstarted, trace.exists()) == (True, True, False)
    scene.node.driver.release(handle)
    until(scene.nothing_left)


def test_what_an_engine_makes_after_all_was_cleared_away(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = scene.kill_at("/containers/create", "before", monkeypatch)
    killer.held.clear()
    handle, folder = scene.submit(_launch(RUN, {"enabled": True, "image": BASE}))
    until(killer.done.is_set)
    scene.node.driver.release(handle)
    assert not folder.exists()
    killer.held.set()
    until(lambda: scene.podman("ps", "--all", "--quiet") != "")
    until(scene.nothing_left)


@pytest.mark.parametrize("request_line", ["/containers/create", "/start", "/commit"])
def test_killed_while_its_image_is_made(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, request_line: str
) -> None:
    with serve(Index()) as index:
        index.add("only_here", "1.0", source=f"WORD = 'kept {request_line}'")
        pip = [f"--index-url {index.url}/simple", "only_here"]
        python = {"conda": {"dependencies": [{"pip": pip}]}, "user_managed": False}

        def launch() -> Launch:
            argv = ["python3", "-c", "import only_here; print(only_here.WORD)"]
            return _launch(argv, {"enabled": True, "image": BASE}, python=python)

        killer = scene.kill_at(request_line, "before", monkeypatch)
        first = launch()
        handle, _ = scene.submit(first)
        until(killer.done.is_set)
        assert scene.rescue(first, handle).unstarted
        second, folder = scene.submit(launch())
        assert scene.node.end_of(second).exit_code == 0, build_log(folder)
        assert said(folder) == f"kept {request_line}\n"
        for each in (handle, second):
            scene.node.driver.release(each)
        until(scene.nothing_left)


def test_canceled_while_its_image_is_made(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", scene.podman.host)
    with serve(Index()) as index:
        index.add("only_here", "2.0")
        index.let_go.clear()
        pip = [f"--index-url {index.url}/simple", "only_here"]
        python: dict[str, Any] = {"conda": {"dependencies": [{"pip": pip}]}, "user_managed": False}
        launch = _launch(["python3", "-V"], {"enabled": True, "image": BASE}, python=python)
        handle, _ = scene.submit(launch)
        until(index.asked.is_set)
        scene.node.driver.cancel(handle)
        record = scene.node.end_of(handle)
        assert (record.canceled, record.exit_code) == (True, None)
        until(scene.nothing_left)
