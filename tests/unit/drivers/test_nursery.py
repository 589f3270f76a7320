"""Runners that come from a process kept warm for them."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.unit.drivers.test_local import launch, look, until
from wherry.control import bundle
from wherry.core.lifecycle import ExitRecord, Phase
from wherry.drivers.base import Handle, Launch
from wherry.drivers.local import LocalDriver


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def driver(tmp_path: Path, cache: Path) -> LocalDriver:
    return LocalDriver(tmp_path / "nodes")


def warm(command: list[str], attempt_id: str, server: str = "") -> Launch:
    plain = launch(command, attempt_id, server=server)
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
    pid = json.loads((tmp_path / "nodes/a1/started").read_text())["pid"]
    assert os.getsid(pid) == pid
    driver.cancel(handle, force=True)
    assert look(driver, handle).phase is Phase.EXITED


def test_a_short_run_is_handed_over_whole_and_once(driver: LocalDriver) -> None:
    """On a machine that is busy enough none is short: then the server would be told, not this."""
    for number in range(50):
        attempt = warm(["/bin/echo", "hello"], f"a{number}", server="http://127.0.0.1:9")
        handle = driver.submit(attempt)
        until(lambda: look(driver, handle).phase is Phase.EXITED or in_vain(driver, handle))  # noqa: B023
        seen, came = look(driver, handle), driver.reports()
        if seen.phase is Phase.EXITED and came:
            assert [each["attempt_id"] for each in came] == [attempt.attempt_id]
            assert ExitRecord.parse(came[0]["exit"]) == seen.exit
            assert b64decode(came[0]["log"]) == b"hello\n"
            assert driver.reports() == []
            return
        driver.cancel(handle, force=True)
    pytest.fail("none was handed over")


def in_vain(driver: LocalDriver, handle: Handle) -> bool:
    """It ended long ago and tries to reach its server."""
    path = Path(driver._root) / json.loads(handle)["attempt"] / "runner.log"
    return path.exists() and "does not answer" in path.read_text()


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


def test_one_that_hangs_keeps_nobody_waiting(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even with a request that is larger than the pipe to it."""
    finish(driver, warm(["/bin/true"], "a1"))
    for each in nurseries():
        each.suspend()
    monkeypatch.setattr("wherry.drivers.nursery._PATIENCE_S", 0.5)
    finish(driver, warm(["/bin/true", *["x" * 100_000] * 3], "a2"))


def test_it_ends_with_the_process_that_keeps_it(tmp_path: Path, cache: Path) -> None:
    driver = LocalDriver(tmp_path / "nodes")
    finish(driver, warm(["/bin/true"], "a1"))
    mine = nurseries()[-1]
    del driver
    until(lambda: not mine.is_running() or mine.status() == psutil.STATUS_ZOMBIE)


def test_a_runner_goes_on_though_nobody_hears_that_it_came_up(tmp_path: Path, cache: Path) -> None:
    """As when the server is killed at that moment."""
    finish(LocalDriver(tmp_path / "nodes"), warm(["/bin/true"], "a0"))  # fills the cache
    folder = tmp_path / "nodes/a1"
    folder.mkdir()
    attempt = warm(["/bin/echo", "hello"], "a1")
    request = {
        "folder": str(folder),
        "env": {},
        "files": {name: content.decode() for name, content in attempt.files.items()},
    }
    answers, output = os.pipe()
    os.close(answers)
    argv = [sys.executable, "-I", "-S", str(tmp_path / "nodes/a0/runner.py"), str(tmp_path)]
    subprocess.run(
        [*argv, "--nursery"],
        input=json.dumps(request).encode() + b"\n",
        stdout=output,
        check=True,
        preexec_fn=lambda: os.dup2(output, 3),
        close_fds=False,
    )
    os.close(output)
    until((folder / "exit.json").exists)
    assert (folder / "std_log.txt").read_text() == "hello\n"
