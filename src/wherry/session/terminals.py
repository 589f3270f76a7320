"""Whether a program is running in a terminal, however silently and whether or not anybody looks."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Dict, List, NamedTuple, Optional, Set

from wherry.runner import tree

_WAITING = {
    *("sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "tcsh", "zsh"),
    *("tmux: client", "tmux: server", "screen"),
}
"""They wait for what is typed, or for what they have started, which counts itself."""
_AT_WORK = ("R", "D")
_PAUSED = ("T",)
_ENDED = ("Z", "X")


class Process(NamedTuple):
    """``state`` is a letter of ``ps``, ``terminal`` empty for one without."""

    name: str
    state: str
    parent: int
    session: int
    terminal: str


class Terminals:
    """Those of one JupyterLab. What one of them left behind belongs to it after its end."""

    def __init__(self, attempt_id: str = "") -> None:
        """``attempt_id`` marks what was started in them, also behind a multiplexer (Linux)."""
        self._attempt_id = attempt_id
        self._known: Set[int] = set()

    def busy(self, jupyter: int) -> bool:
        table = _table()
        self._known |= {pid for pid in table if self._is_terminal(pid, table[pid], jupyter)}
        self._known &= {each.session for each in table.values()}
        return any(each.session in self._known and works(each) for each in table.values())

    def _is_terminal(self, pid: int, process: Process, jupyter: int) -> bool:
        """Whether it leads the session of one."""
        if pid != process.session or not process.terminal:
            return False
        return process.parent == jupyter or self._is_marked(pid)

    def _is_marked(self, pid: int) -> bool:
        try:
            return bool(self._attempt_id) and tree.mark_of(pid) == self._attempt_id
        except OSError:
            return False


def works(process: Process) -> bool:
    """A shell at its prompt does not, nor does what was paused with Ctrl-Z."""
    if process.name.lstrip("-") in _WAITING:
        return process.state in _AT_WORK
    return process.state not in _PAUSED


def parse_stat(text: str) -> Optional[Process]:
    """A line of ``/proc/<pid>/stat``; None of a process that has ended.

    >>> parse_stat("7 (my (x) prog) S 5 7 7 34816 9 4194304 0")
    Process(name='my (x) prog', state='S', parent=5, session=7, terminal='34816')
    """
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) < 5 or fields[0] in _ENDED:
        return None
    terminal = "" if fields[4] == "0" else fields[4]
    return Process(head.partition("(")[2], fields[0], int(fields[1]), int(fields[3]), terminal)


def parse_ps(line: str, session: int) -> Optional[Process]:
    """A line of ``ps -o pid=,ppid=,stat=,tty=,ucomm=``.

    >>> parse_ps("71 70 S+ ttys001 python3.11", 60)
    Process(name='python3.11', state='S', parent=70, session=60, terminal='ttys001')
    """
    fields = line.split(None, 4)
    if len(fields) < 5 or fields[2][0] in _ENDED:
        return None
    terminal = "" if fields[3].startswith("?") or fields[3] == "-" else fields[3]
    return Process(fields[4].strip(), fields[2][0], int(fields[1]), session, terminal)


def _table() -> Dict[int, Process]:
    found = _from_proc() if sys.platform == "linux" else _from_ps()
    return {pid: each for pid, each in found.items() if each is not None}


def _from_proc() -> Dict[int, Optional[Process]]:
    table: Dict[int, Optional[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    table[int(name)] = parse_stat(file.read())
            except OSError:
                continue
    return table


def _from_ps() -> Dict[int, Optional[Process]]:
    words = ["ps", "-A", "-o", "pid=,ppid=,stat=,tty=,ucomm="]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    lines: List[str] = done.stdout.decode("utf-8", "replace").splitlines()
    return {int(line.split()[0]): parse_ps(line, _session(int(line.split()[0]))) for line in lines}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
