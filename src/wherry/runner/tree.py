"""The processes of an attempt, found by descent and by session."""

from __future__ import annotations

import os
import sys

from .light import TYPE_CHECKING, signal, suppress

if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, Mapping, Set, Tuple

    Table = Dict[int, Tuple[int, int, int]]


MARK = "WHERRY_ATTEMPT_ID"


def mark_of(pid: int) -> str:
    """The attempt that a process' environment names (Linux); empty where there is none.

    What cannot be read for another reason raises: it says nothing about the process.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
    _, _, rest = (b"\0" + variables).partition(f"\0{MARK}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0])


def members(root: int, session: int) -> Dict[int, int]:
    """Everything below ``root``, and everything in ``session`` and below it, each with its group.

    Without ``root`` itself.
    """
    table = processes()
    found = {pid for pid, (_, sid, _) in table.items() if sid == session}
    found.add(root)
    grown: Set[int] = set()
    while grown != found:
        grown = set(found)
        found |= {pid for pid, (parent, _, _) in table.items() if parent in grown}
    return {pid: table[pid][2] for pid in sorted(found - {root})}


def kill(found: Mapping[int, int]) -> None:
    """By group as well: one that forks and leaves all the time is never met by its number."""
    for group in set(found.values()) - {0, 1, os.getpgrp()}:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    send(found, signal.SIGKILL)


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            if number == signal.SIGTERM:
                os.kill(pid, signal.SIGCONT)  # a stopped process would not hear it


def processes() -> Table:
    """Parent, session and group of every live process; zombies have ended."""
    return _from_proc() if sys.platform == "linux" else _from_ps()


def parse_ps(listing: str, session: Callable[[int], int]) -> Table:
    table: Table = {}
    for fields in (line.split() for line in listing.splitlines()):
        if len(fields) == 4 and not fields[3].startswith("Z"):
            pid, parent, group = map(int, fields[:3])
            table[pid] = (parent, session(pid), group)
    return table


def _from_proc() -> Table:
    table: Table = {}
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    for name in reversed(names):  # the newest first: they are the likeliest to be gone soon
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            table[int(name)] = (int(fields[1]), int(fields[3]), int(fields[2]))
    return table


def _from_ps() -> Table:
    import subprocess

    with subprocess.Popen(
        ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
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
