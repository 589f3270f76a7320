"""Brings home what an attempt left whose runner was killed: the rest of its log, metrics, files.

The command is never started here. If it still runs, it is watched to its end by what can be seen
from outside; how it ended nobody knows then, and the record says so. If it was never started, the
record says that, and the server may give the run another attempt.
"""

from __future__ import annotations

import os
import time

from . import tree
from .folder import Folder
from .light import TYPE_CHECKING, signal
from .process import Signals
from .verdict import READ_BACK, conclude

if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional

_SHORTEST_S = 0.1
_LONGEST_S = 1.0
RESTARTED = "the machine was restarted while it ran"


def outlive(folder: Folder, manifest: Mapping[str, Any], signals: Signals) -> Dict[str, Any]:
    """Wait until nothing of the attempt is left; its exit record, for want of a better one."""
    if os.path.exists(f"{folder.path}/container"):
        record = _outlive_container(folder, manifest, signals)
        if record is not None:
            return record
    began, started_at = folder.began(), folder.started_at()
    if not began:  # programs of a build that nobody will finish
        tree.send(marked(str(manifest["attempt_id"])), signal.SIGKILL)
    watch = _Watch(manifest, signals, folder.age_s())
    watch.run()
    return {
        "exit_code": None,
        "signal": None,
        "canceled": watch.canceled,
        "timed_out": watch.timed_out,
        "out_of_memory": False,
        "setup_error": None,
        "error": {"message": RESTARTED} if folder.restarted() else None,
        "lost": True,
        "unstarted": not began,
        "no_room": False,
        "warnings": [],
        "started_at": started_at if began else None,
        "ended_at": time.time(),
    }


def _outlive_container(
    folder: Folder, manifest: Mapping[str, Any], signals: Signals
) -> Optional[Dict[str, Any]]:
    """An engine keeps the end for whoever asks: nothing is lost with the runner."""
    from .container import adopt

    command = adopt(folder, manifest, signals)
    if command is None:
        return None
    limit_s = manifest.get("time_limit_s")
    left_s = max(0.001, limit_s - folder.age_s()) if limit_s else None
    command.watch(signals, left_s, float(manifest.get("grace_s", 10.0)), lambda: None)
    command.remove()
    status = command.status or 0
    return {
        **conclude(
            status,
            folder.end_of_log(READ_BACK) if status or command.timed_out else b"",
            folder.work,
            canceled=command.canceled,
            timed_out=command.timed_out,
            killed_by_us=command.killed,
            memory_kills=command.out_of_memory,
            detail=command.detail,
            memory_bytes=int((manifest.get("limits") or {}).get("memory_bytes") or 0),
        ),
        "started_at": folder.started_at(),
        "ended_at": time.time(),
    }


class _Watch:
    """Ends the attempt's processes when they are asked to end or their time is over."""

    def __init__(self, manifest: Mapping[str, Any], signals: Signals, age_s: float) -> None:
        self.canceled = False
        self.timed_out = False
        self._signals = signals
        self._attempt_id = str(manifest["attempt_id"])
        self._grace_s = float(manifest.get("grace_s", 10.0))
        limit_s = manifest.get("time_limit_s")
        self._limit_at = time.monotonic() - age_s + limit_s if limit_s else None
        self._kill_at: Optional[float] = None

    def run(self) -> None:
        pause = _SHORTEST_S
        while True:
            alive = marked(self._attempt_id)
            if not alive:
                return
            self._look(alive)
            self._signals.wait(pause)
            pause = min(pause * 1.2, _LONGEST_S)

    def _look(self, alive: List[int]) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                tree.send(alive, signal.SIGKILL)
            return
        self.canceled = bool(self._signals.asked)
        self.timed_out = self._limit_at is not None and now >= self._limit_at
        if self.canceled or self.timed_out:
            tree.send(alive, signal.SIGTERM)
            self._kill_at = now + self._grace_s


def marked(attempt_id: str) -> List[int]:
    """Live processes, but this one, whose environment names the attempt (Linux)."""
    return [
        pid for pid in tree.processes() if pid != os.getpid() and tree.mark_of(pid) == attempt_id
    ]
