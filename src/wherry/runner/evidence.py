"""Whether the kernel killed for want of memory: its counters, before and after."""

from __future__ import annotations

import time

from .light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import List, Optional, Sequence

_VMSTAT = "/proc/vmstat"
_GROUPS = "/proc/self/cgroup"
_LATELY_S = 5.0


class MemoryKills:
    """Remembers the counters of a while ago: a kill long before the end did not cause it.

    The kernel counts first and the process ends later, so what was read just now is too new.
    """

    def __init__(self, counters: Sequence[str] = ()) -> None:
        self._counters = counters
        self._past = self._recent = (time.monotonic(), self._kills())

    def look(self) -> None:
        """To be called now and then."""
        now = time.monotonic()
        if now - self._recent[0] >= _LATELY_S:
            self._past, self._recent = self._recent, (now, self._kills())

    def lately(self) -> bool:
        return self._kills() > self._past[1]

    def _kills(self) -> int:
        """In the group that the command has to itself, where it has one."""
        if not self._counters:
            return out_of_memory_kills()
        return sum(count_kills(_read(path)) or 0 for path in self._counters)


def out_of_memory_kills() -> int:
    """Kills in this control group, or on the machine where groups do not count. Grows only."""
    counts = [count_kills(_read(path)) for path in group_files(own_groups())]
    told = [count for count in counts if count is not None]
    return sum(told) if told else machine_kills()


def machine_kills() -> int:
    """Kills on the machine, in whatever group."""
    return count_kills(_read(_VMSTAT)) or 0


def group_files(groups: bytes) -> List[str]:
    """Where the memory events of these control groups are told, version 1 and 2."""
    found = []
    for line in groups.decode("utf-8", "replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            found.append(f"/sys/fs/cgroup{path.rstrip('/')}/memory.events")
        elif "memory" in controllers.split(","):
            found.append(f"/sys/fs/cgroup/memory{path.rstrip('/')}/memory.oom_control")
    return found


def own_groups() -> bytes:
    """The control groups of this process, as the kernel tells them."""
    return _read(_GROUPS)


def count_kills(text: bytes) -> Optional[int]:
    """The number on the line ``oom_kill``, which all these files share, if there is one."""
    at = (b"\n" + text).find(b"\noom_kill ")
    if at < 0:
        return None
    number = text[at + 9 :].split(None, 1)
    return int(number[0]) if number and number[0].isdigit() else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", 0) as file:
            return file.read()
    except OSError:
        return b""
