"""What this machine lets us use: CPUs and memory, within the limits of our control group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PROC_CGROUP = Path("/proc/self/cgroup")


def cpus(root: Path = _CGROUP, groups: Path = _PROC_CGROUP) -> float:
    """CPUs that we may be scheduled on, or fewer where a quota says so."""
    limits = [float(_affinity())]
    for folder in _folders(root, groups, "cpu"):
        quota = _quota(folder)
        if quota:
            limits.append(quota)
    return min(limits)


def memory_bytes(root: Path = _CGROUP, groups: Path = _PROC_CGROUP) -> int:
    """The machine's memory, or less where a limit says so."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for folder in _folders(root, groups, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name)
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def usable_cpus() -> set[int]:
    """The numbers of the CPUs that we may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _affinity() -> int:
    return len(usable_cpus())


def _quota(folder: Path) -> float | None:
    """CPUs' worth of time, in either version's files."""
    both = _read(folder / "cpu.max").split()
    if len(both) != 2:
        both = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]
    if all(part.isdigit() and int(part) for part in both):
        return int(both[0]) / int(both[1])
    return None


def _folders(root: Path, groups: Path, controller: str) -> Iterator[Path]:
    """Our control group's folder and those above it, in version 1 and 2."""
    for line in _read(groups).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controller if controllers else root
        folder = top / path.lstrip("/")
        yield from (folder, *list(folder.parents)[: len(folder.parts) - len(top.parts)])


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
