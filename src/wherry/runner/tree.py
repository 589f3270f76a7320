"""The processes of an attempt, found by descent and by session."""

from __future__ import annotations

import os
import sys

from .light import TYPE_CHECKING, signal, suppress

if TYPE_CHECKING:
    from typing import Callable, Dict, List, Set, Tuple

    Table = Dict[int, Tuple[int, int]]


def members(root: int, session: int) -> List[int]:
    """Everything below ``root``, and everything in ``session`` and below it; not ``root``."""
    table = processes()
    found = {pid for pid, (_, sid) in table.items() if sid == session}
    found.add(root)
    grown: Set[int] = set()
    while grown != found:
        grown = set(found)
        found |= {pid for pid, (parent, _) in table.items() if parent in grown}
    return sorted(found - {root})


def send(pids: List[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            if number == signal.SIGTERM:
                os.kill(pid, signal.SIGCONT)  # a stopped process would not hear it


def processes() -> Table:
    """Parent and session of every live process; zombies have ended."""
    return _from_proc() if sys.platform == "linux" else _from_ps()


def parse_ps(listing: str, session: Callable[[int], int]) -> Table:
    table: Table = {}
    for fields in (line.split() for line in listing.splitlines()):
        if len(fields) == 3 and not fields[2].startswith("Z"):
            table[int(fields[0])] = (int(fields[1]), session(int(fields[0])))
    return table


def _from_proc() -> Table:
    table: Table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            table[int(name)] = (int(fields[1]), int(fields[3]))
    return table


def _from_ps() -> Table:
    import subprocess

    with subprocess.Popen(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as ps:
        listing = ps.communicate()[0].decode("ascii", "replace")
    table = parse_ps(listing, _session)
    table.pop(ps.pid, None)
    return table


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
