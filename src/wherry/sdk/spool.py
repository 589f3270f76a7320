"""The file that a process writes its metrics to: each call one line, on disk when it returns."""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, Optional, Set

from ..core.errors import WherryError
from .console import say
from .values import lines

ENDING = ".jsonl"
_COMPLAINTS = 20
_FULL = {errno.ENOSPC, errno.EDQUOT}
_MOST_HELD = 64 << 20
_PATIENCE_S = 30.0
_SHOWN = 100


class Spool:
    """A folder with one file per process: ``metrics.<pid>.<random>.jsonl``.

    A line is one ``write``, so that a killed process loses nothing of what it logged. What finds
    the disk full is kept in memory and written, in its order, when there is room. Trouble is told
    once and never raised.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.RLock()  # a signal handler may log, too
        self._fd = -1
        self._pid = 0
        self._complaints: Set[str] = set()
        self._held: Deque[bytes] = deque()
        self._held_bytes = 0

    def append(
        self,
        kind: str,
        name: str,
        value: Any,
        step: Optional[int] = None,
        run_id: str = "",
        at: Optional[float] = None,
    ) -> None:
        moment = time.time() if at is None else at
        entry: Dict[str, Any] = {"t": moment, "k": kind, "n": name, "v": value}
        if step is not None:
            entry["s"] = step
        if run_id:
            entry["r"] = run_id
        try:
            for line in lines(entry):
                self._put(line)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self.complain(name, error)

    def complain(self, name: str, error: Exception) -> None:
        """Tell that a metric is lost, once for each; a script may log it a million times."""
        if name in self._complaints or len(self._complaints) > _COMPLAINTS:
            return
        self._complaints.add(name)
        last = " (more of the kind is not told)" if len(self._complaints) > _COMPLAINTS else ""
        shown = repr(name) if len(str(name)) <= _SHOWN else repr(str(name)[:_SHOWN]) + "..."
        say(f"warning: metric {shown} is not recorded: {_reason(error)}{last}")

    def sizes(self) -> Dict[str, int]:
        """How much every process has written, by the name of its stream."""
        try:
            with os.scandir(self.folder) as entries:
                return {entry.name[: -len(ENDING)]: entry.stat().st_size for entry in entries}
        except FileNotFoundError:
            return {}

    def close(self) -> None:
        self._await_room()
        with self._lock:
            if self._fd >= 0 and self._pid == os.getpid():
                os.close(self._fd)
            self._fd = -1

    def _put(self, line: bytes) -> None:
        if self._pid != os.getpid():  # a forked child has its own file, its own lock, its own lines
            self._lock = threading.RLock()
            self._fd = -1
            self._held.clear()
            self._held_bytes = 0
        with self._lock:
            try:
                self._write_held()
                self._write(line)
            except OSError as error:
                if error.errno not in _FULL or self._held_bytes + len(line) > _MOST_HELD:
                    raise
                self._hold(line)

    def _hold(self, line: bytes) -> None:
        if not self._held:
            say("warning: the disk is full: metrics are kept in memory until there is room")
            atexit.register(self._await_room)
        self._held.append(line)
        self._held_bytes += len(line)

    def _write_held(self) -> None:
        while self._held:
            self._write(self._held[0])
            self._held_bytes -= len(self._held.popleft())
            if not self._held:
                atexit.unregister(self._await_room)

    def _await_room(self) -> None:
        """At the process' end: a disk that is full for a while costs no metric."""
        until = time.monotonic() + _PATIENCE_S
        while self._held and self._pid == os.getpid():
            try:
                with self._lock:
                    self._write_held()
            except OSError as error:
                if time.monotonic() > until:
                    say(f"warning: {len(self._held)} metrics are not recorded: {_reason(error)}")
                    self._held.clear()
                time.sleep(0.1)

    def _write(self, line: bytes) -> None:
        if self._fd < 0:
            self._open()
        written = os.write(self._fd, line)
        if written != len(line):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise OSError(errno.ENOSPC, "the disk is full")

    def _open(self) -> None:
        self._pid = os.getpid()
        os.makedirs(self.folder, exist_ok=True)
        # A second attempt in a new container has the first one's pid.
        name = f"metrics.{self._pid}.{os.urandom(4).hex()}{ENDING}"
        path = os.path.join(self.folder, name)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, WherryError) else str(error) or repr(error)
