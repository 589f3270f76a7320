"""Runners that come from a process kept warm for them."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.unit.drivers.test_local import launch, look, until
from wherry.control import bundle
from wherry.core.lifecycle import Phase
from wherry.drivers.base import Launch
from wherry.drivers.local import LocalDriver


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def driver(tmp_path: Path, cache: Path) -> LocalDriver:
    return LocalDriver(tmp_path / "nodes")


def warm(command: list[str], attempt_id: str) -> Launch:
    plain = launch(command, attempt_id)
    return dataclasses.replace(plain, nursery=bundle.nursery(sys.executable))


def nurseries() -> list[psutil.Process]:
    alive = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    return [each for each in alive if "--nursery" in each.cmdline()]


def finish(driver: LocalDriver, attempt: Launch) -> None:
    handle = driver.submit(attempt)
    until(lambda: look(driver, handle).phase is Phase.EXITED)
    exit = look(driver, handle).exit
    assert exit is not None
    assert exit.exit_code == 0


def test_one_process_starts_them_all(driver: LocalDriver, tmp_path: Path) -> None:
    before = nurseries()
    for number in range(3):
        finish(driver, warm(["/bin/echo", "hello"], f"a{number}"))
    assert len(nurseries()) == len(before) + 1
    # The program was put down once, for the nursery; the others did not need it.
    assert not (tmp_path / "nodes/a1/runner.pyz").exists()
    assert (tmp_path / "nodes/a1/std_log.txt").read_text() == "hello\n"


def test_a_runner_is_a_process_of_its_own_session(driver: LocalDriver, tmp_path: Path) -> None:
    handle = driver.submit(warm(["/bin/sleep", "60"], "a1"))
    until((tmp_path / "nodes/a1/std_log.txt").exists)
    pid = json.loads((tmp_path / "nodes/a1/spawned").read_text())["pid"]
    assert os.getsid(pid) == pid
    driver.cancel(handle, force=True)
    assert look(driver, handle).phase is Phase.EXITED


def kill(cache: Path) -> None:
    for each in nurseries():
        each.send_signal(signal.SIGKILL)


def lose_library(cache: Path) -> None:
    shutil.rmtree(cache)


@pytest.mark.parametrize("harm", [kill, lose_library])
def test_without_it_runners_are_started_one_by_one(
    driver: LocalDriver, cache: Path, harm: Callable[[Path], None]
) -> None:
    finish(driver, warm(["/bin/true"], "a1"))
    harm(cache)
    finish(driver, warm(["/bin/true"], "a2"))
    finish(driver, warm(["/bin/true"], "a3"))


def test_it_ends_with_the_process_that_keeps_it(tmp_path: Path, cache: Path) -> None:
    driver = LocalDriver(tmp_path / "nodes")
    finish(driver, warm(["/bin/true"], "a1"))
    mine = nurseries()[-1]
    del driver
    until(lambda: not mine.is_running() or mine.status() == psutil.STATUS_ZOMBIE)
