from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.homes import wait_until
from wherry.session import scripts
from wherry.session.contract import Script, read
from wherry.session.home import Home
from wherry.session.scripts import ScriptError, run


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(str(tmp_path / "home"))
    home.make(read(json.dumps({"jupyter_token": "t"})))
    yield home
    home.leave()


def do(home: Home, content: str, arguments: str = "", minutes: float = 5, **env: str) -> None:
    run("startup", Script(content, arguments, minutes), home, {**os.environ, **env}, lambda: False)


def test_it_runs_in_the_home_with_its_arguments(
    home: Home, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    do(home, 'echo "$PWD|$1|$2|$COLOUR"\r\n', "one 'two three'", COLOUR="red")
    line = f"{home.path}|one|two three|red\n".encode()
    assert Path(home.logs, "startup.log").read_bytes() == line
    assert capfdbinary.readouterr().out == line


def test_a_failure_is_told_with_its_last_lines(home: Home) -> None:
    with pytest.raises(ScriptError) as caught:
        do(home, "seq 30; exit 7")
    sentence, *lines = str(caught.value).splitlines()
    assert sentence == "the startup script failed with exit code 7"
    assert lines == [str(number) for number in range(11, 31)]
    with pytest.raises(ScriptError, match="was ended by signal 9"):
        do(home, "kill -9 $$")
    with pytest.raises(ScriptError, match="cannot be started: No closing quotation"):
        do(home, "true", "'open")


def test_its_limit_ends_all_of_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "_GRACE_S", 0.2)
    note = Path(home.path, "pid")
    content = f"trap '' TERM; sleep 1000 & echo $! > {note}.new; mv {note}.new {note}; wait; wait"
    with pytest.raises(ScriptError, match=r"longer than its limit of 0\.01 minutes"):
        do(home, content, minutes=0.01)
    pid = int(note.read_text())
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_a_line_without_end_is_not_held_in_memory(
    home: Home, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(ScriptError) as caught:
        do(home, "head -c 3000000 /dev/zero | tr '\\0' x; exit 7")
    assert len(str(caught.value)) < 500_000
    assert len(capfdbinary.readouterr().out) == 3_000_000


def test_a_log_that_cannot_be_written_ends_no_script(home: Home) -> None:
    Path(home.logs, "startup.log").mkdir()
    do(home, "echo one; echo two > done")
    assert Path(home.path, "done").exists()


def test_what_it_leaves_running_goes_on(home: Home) -> None:
    do(home, "sleep 1000 & echo $! > pid")
    left = psutil.Process(int(Path(home.path, "pid").read_text()))
    assert left.is_running()
    left.kill()


def test_a_session_that_ends_ends_its_script(home: Home) -> None:
    run("startup", Script("sleep 1000"), home, os.environ, lambda: True)
