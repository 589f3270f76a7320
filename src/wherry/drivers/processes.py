"""The processes of this machine's attempts: who they are, whether they live, how they end."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path

from wherry.runner import tree

if sys.platform != "linux":
    import psutil

MARK = tree.MARK

_KILL_FOR_S = 5.0


def identity(pid: int, *, ended: bool = False) -> str | None:
    """What no other process will ever be, whatever becomes of its number; None when it ended.

    With ``ended``, also that of a process which nobody has waited for yet.
    """
    if sys.platform != "linux":
        try:
            process = psutil.Process(pid)
            dead = process.status() == psutil.STATUS_ZOMBIE
            return None if dead and not ended else f"{process.create_time():.2f}"
        except psutil.Error:
            return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in (b"Z", b"X") and not ended:
        return None
    return f"{boot_id()}:{fields[19].decode()}"


@lru_cache(maxsize=1)
def boot_id() -> str:
    """What is another after every start of this machine (Linux)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def marked() -> dict[str, list[int]]:
    """Live processes by the attempt that their environment names."""
    return _marked(tree.processes())


def members(attempt_id: str, runner: int | None) -> dict[int, int]:
    """By their environment, by descent, and by the sessions of all those; each with its group.

    Never this process.
    """
    table = tree.processes()
    found = set(_marked(table).get(attempt_id, []))
    if runner is not None:
        found.add(runner)
    grown: set[int] = set()
    while grown != found:
        grown = set(found)
        sessions = {table[pid][1] for pid in grown if pid in table} - {os.getsid(0), 0}
        found |= {
            pid
            for pid, (parent, session, _) in table.items()
            if parent in grown or session in sessions
        }
    return {pid: table[pid][2] for pid in found - {os.getpid()} if pid in table}


def kill(attempt_id: str, runner: int | None) -> bool:
    """End every process of the attempt; whether there were any and none is left."""
    killed = False
    until = time.monotonic() + _KILL_FOR_S
    while time.monotonic() < until:
        alive = members(attempt_id, runner)
        if not alive:
            return killed
        tree.kill(alive)
        killed, runner = True, None  # its number may soon be another's
        time.sleep(0.005)
        reap()
    return False


def adopt(pid: int) -> None:
    """A child of this process that ``reap`` shall wait for."""
    _children.add(pid)


def wait(pid: int, timeout_s: float) -> None:
    """Until the adopted child has ended, or the time is over."""
    until = time.monotonic() + timeout_s
    while pid in _children and time.monotonic() < until:
        reap()
        time.sleep(0.002)


def reap() -> None:
    """Wait for the children that have ended, so that none stays a zombie."""
    with _reaping:
        for pid in list(_children):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    _children.discard(pid)
            except ChildProcessError:
                _children.discard(pid)


def _marked(table: tree.Table) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for pid in table:
        attempt_id = _attempt_of(pid)
        if attempt_id and pid != os.getpid():
            found.setdefault(attempt_id, []).append(pid)
    return found


def _attempt_of(pid: int) -> str | None:
    if sys.platform != "linux":
        try:
            return psutil.Process(pid).environ().get(MARK)
        except (psutil.Error, OSError):
            return None
    return tree.mark_of(pid) or None


_children: set[int] = set()
_reaping = threading.Lock()
