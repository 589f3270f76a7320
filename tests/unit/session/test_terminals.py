"""What counts as work in a terminal, with real shells on real terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.homes import wait_until
from wherry.session.terminals import Process, Terminals, parse_ps, parse_stat, works

_PATIENCE_S = 300.0
_MARK = "an-attempt-of-this-test"


class Shell:
    """A shell on a terminal of its own, as JupyterLab starts one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:  # pragma: no cover
            variables = {"PATH": os.environ["PATH"], "WHERRY_ATTEMPT_ID": _MARK, "HOME": "/"}
            os.execvpe("/bin/sh", ["/bin/sh"], variables)

    def type(self, line: str) -> None:
        os.write(self._terminal, f"{line}\n".encode())

    def run(self, line: str) -> None:
        """Until the shell is done with it."""
        self._count += 1
        done = self._folder / f"done-{self.pid}-{self._count}"
        self.type(f"{line}\n: > {done}")
        wait_until(done.exists, _PATIENCE_S)

    def close(self) -> None:
        for number in (signal.SIGHUP, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
        os.close(self._terminal)
        os.waitpid(self.pid, 0)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def becomes(terminals: Terminals, busy: bool) -> None:
    wait_until(lambda: terminals.busy(os.getpid()) is busy, _PATIENCE_S)


def test_a_shell_at_its_prompt_is_idle(shell: Shell) -> None:
    shell.run("cd /")
    becomes(Terminals(), False)


def test_a_program_in_the_foreground_counts_until_it_ends(shell: Shell) -> None:
    terminals = Terminals()
    shell.type("cat > /dev/null")
    becomes(terminals, True)
    shell.type("\x04")
    shell.run("cd /")
    becomes(terminals, False)


def test_so_does_one_behind_the_shell_and_after_the_shell_has_ended(tmp_path: Path) -> None:
    shell, terminals = Shell(tmp_path), Terminals()
    try:
        shell.run(f"nohup sleep 10000 > /dev/null 2>&1 & echo $! > {tmp_path / 'pid'}")
        becomes(terminals, True)
        shell.type("exit")
    finally:
        os.waitpid(shell.pid, 0)
        os.close(shell._terminal)
    becomes(terminals, True)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    becomes(terminals, False)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_behind_a_multiplexer_it_is_known_by_its_mark(shell: Shell) -> None:
    """Its terminals are no children of JupyterLab."""
    shell.type("cat > /dev/null")
    elsewhere = 1
    wait_until(lambda: Terminals(_MARK).busy(elsewhere), _PATIENCE_S)
    assert not Terminals("another-attempt").busy(elsewhere)
    assert not Terminals().busy(elsewhere)


def test_what_has_no_terminal_is_no_program_in_one() -> None:
    kernel = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                              start_new_session=True)  # fmt: skip
    try:
        assert not Terminals().busy(os.getpid())
    finally:
        kernel.communicate(b"\n")


@pytest.mark.parametrize(
    ("name", "state", "busy"),
    [
        ("python", "S", True),
        ("train.sh", "S", True),
        ("bash", "S", False),
        ("-bash", "S", False),
        ("zsh", "R", True),  # a loop of its own
        ("vim", "T", False),
        ("tmux: client", "S", False),
    ],
)
def test_who_works(name: str, state: str, busy: bool) -> None:
    assert works(Process(name, state, 1, 7, "34816")) is busy


def test_processes_as_they_are_told() -> None:
    told = parse_stat("7 (my (x) prog) S 5 7 6 34816 9 4194304 0")
    assert told == Process("my (x) prog", "S", 5, 6, "34816")
    assert parse_stat("7 (gone) Z 5 7 7 34816 9") is None
    assert parse_stat("") is None
    told = parse_ps("71 70 S+ ttys001 python3.11", 60)
    assert told == Process("python3.11", "S", 70, 60, "ttys001")
    assert parse_ps("71 70 Ss ?? launchd", 71) == Process("launchd", "S", 70, 71, "")
    assert parse_ps("71 70 Z ttys001 (python)", 60) is None
