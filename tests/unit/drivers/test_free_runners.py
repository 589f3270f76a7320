"""A runner that has handed its attempt over takes the next one."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest

from tests.unit.drivers.test_local import look, until
from tests.unit.drivers.test_nursery import cache, nurseries, warm
from wherry.core.lifecycle import Phase
from wherry.drivers.base import Handle
from wherry.drivers.local import LocalDriver

__all__ = ["cache"]


class Node:
    """On a machine that is busy enough no run is short, so whatever needs one tries again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.driver = LocalDriver(root)
        self._numbers = count()

    def start(self, *command: str, **env: str) -> Handle:
        attempt = warm([*command], f"a{next(self._numbers)}", server="http://127.0.0.1:9")
        self.last = dataclasses.replace(attempt, env=env)
        return self.driver.submit(self.last)

    def folder(self, handle: Handle) -> Path:
        return self.root / str(json.loads(handle)["attempt"])

    def runner(self, handle: Handle) -> int:
        return int(json.loads((self.folder(handle) / "started").read_text())["pid"])

    def handed_over(self, *command: str, **env: str) -> Handle:
        """A run that was short, whose runner is free."""
        for _ in range(50):
            handle = self.start(*command, **env)
            until((self.folder(handle) / "exit.json").exists)
            record = json.loads((self.folder(handle) / "exit.json").read_text())
            if record.get("handed_over"):
                return handle
            self.driver.cancel(handle, force=True)
        pytest.fail("none was short")

    def passed_on(self, *command: str) -> tuple[Handle, Handle]:
        """A short run, and one that its runner has taken next."""
        for _ in range(50):
            first = self.handed_over("/bin/true", FIRST="1")
            second = self.start(*command)
            if self.runner(first) == self.runner(second):
                return first, second
            self.driver.cancel(second, force=True)
        pytest.fail("no runner took another attempt")


@pytest.fixture
def node(tmp_path: Path, cache: Path) -> Iterator[Node]:
    node = Node(tmp_path / "nodes")
    yield node
    node.driver.close()


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_the_next_attempt_sees_nothing_of_the_one_before(node: Node) -> None:
    first, second = node.passed_on("/bin/sh", "-c", "env; pwd")
    until((node.folder(second) / "exit.json").exists)
    log = (node.folder(second) / "std_log.txt").read_text()
    assert "FIRST=" not in log
    assert str(node.folder(first)) not in log
    assert f"{node.folder(second)}/work" in log
    node.driver.cancel(second, force=True)


def test_one_whose_runner_went_on_has_ended(node: Node) -> None:
    first, second = node.passed_on("/bin/sleep", "60")
    assert look(node.driver, first).phase is Phase.EXITED
    assert look(node.driver, second).phase is Phase.RUNNING
    node.driver.cancel(first, force=True)
    node.driver.release(first)
    assert look(node.driver, second).phase is Phase.RUNNING
    node.driver.cancel(second, force=True)
    assert look(node.driver, second).phase is Phase.EXITED


def test_one_that_was_handed_over_in_vain_is_rescued_by_one(node: Node) -> None:
    """As when the server died before it had read the line. The rescuer cannot reach it either."""
    handle = node.handed_over("/bin/true")
    assert node.driver.rescue(node.last)
    until(lambda: look(node.driver, handle).phase is Phase.RUNNING)
    rescuer = (node.folder(handle) / "spawned").read_bytes()
    assert node.driver.rescue(node.last)
    assert (node.folder(handle) / "spawned").read_bytes() == rescuer
    node.driver.cancel(handle, force=True)
    assert look(node.driver, handle).phase is Phase.EXITED


def test_a_signal_that_was_meant_for_the_one_before_changes_nothing(node: Node) -> None:
    _, second = node.passed_on("/bin/sleep", "60")
    os.kill(node.runner(second), signal.SIGTERM)
    time.sleep(0.3)
    assert not (node.folder(second) / "exit.json").exists()
    node.driver.cancel(second)
    until((node.folder(second) / "exit.json").exists)
    assert json.loads((node.folder(second) / "exit.json").read_text())["canceled"]
    node.driver.cancel(second, force=True)


def test_one_that_dies_while_it_is_free_is_not_missed(node: Node) -> None:
    runner = node.runner(node.handed_over("/bin/true"))
    before = nurseries()
    os.kill(runner, signal.SIGKILL)
    until(lambda: gone(runner))
    second = node.handed_over("/bin/true")
    assert node.runner(second) != runner
    assert nurseries() == before


def test_one_that_is_free_for_long_is_let_go(node: Node) -> None:
    runner = node.runner(node.handed_over("/bin/true"))
    until(lambda: gone(runner))
    assert nurseries()


def test_they_go_with_the_nursery(node: Node) -> None:
    runner = node.runner(node.handed_over("/bin/true"))
    node.driver.close()
    until(lambda: gone(runner))
