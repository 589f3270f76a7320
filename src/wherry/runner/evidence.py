"""Whether the kernel killed for want of memory: its counters, before and after."""

from __future__ import annotations

from .light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import List, Tuple

_VMSTAT = "/proc/vmstat"
_GROUPS = "/proc/self/cgroup"


def out_of_memory_kills() -> Tuple[int, ...]:
    """Kills on this machine and in this control group, as far as they are told. Grows only."""
    paths = [_VMSTAT, *group_files(_read(_GROUPS))]
    return tuple(count_kills(_read(path)) for path in paths)


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


def count_kills(text: bytes) -> int:
    """The number on the line ``oom_kill``, which all these files share."""
    at = (b"\n" + text).find(b"\noom_kill ")
    if at < 0:
        return 0
    number = text[at + 9 :].split(None, 1)
    return int(number[0]) if number and number[0].isdigit() else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", 0) as file:
            return file.read()
    except OSError:
        return b""
