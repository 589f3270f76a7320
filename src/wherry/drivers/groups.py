"""Control groups that hold a node of this machine to its memory, where we may make them."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_EMPTY_WITHIN_S = 5.0


def places(name: str, root: Path = _ROOT, own: Path = _OWN) -> list[str]:
    """The folders that a group of that name may get."""
    return [str(parent / name) for parent, _ in _parents(root, own)]


def named(prefix: str, root: Path = _ROOT, own: Path = _OWN) -> list[str]:
    """The folders of groups that are there under names that begin so."""
    parents = [parent for parent, _ in _parents(root, own) if parent.is_dir()]
    return [str(found) for parent in parents for found in parent.glob(f"{prefix}*")]


def make(name: str, memory_bytes: int, root: Path = _ROOT, own: Path = _OWN) -> list[str]:
    """The folders of the groups to join: at most one, and none where the system does not let us."""
    if not memory_bytes:
        return []
    for parent, limit in _parents(root, own):
        folder = parent / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        try:
            _limit(folder, limit, memory_bytes)
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            continue
        return [str(folder)]
    return []


def remove(folders: Sequence[str]) -> None:
    """With every process that is left in them."""
    for folder in folders:
        until = time.monotonic() + _EMPTY_WITHIN_S
        while not _removed(Path(folder)) and time.monotonic() < until:
            for pid in _members(Path(folder)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def remove_empty(folders: Sequence[str]) -> None:
    """Those in which nothing runs."""
    for folder in folders:
        with suppress(OSError):
            os.rmdir(folder)


def _parents(root: Path, own: Path) -> Iterator[tuple[Path, str]]:
    """Where a group may be made, with the name of the limit's file: version 1, else 2."""
    lines = own.read_text().splitlines() if own.exists() else []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            yield root / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
    for line in lines:
        if line.startswith("0::"):
            # Beside our own group: one that has processes can have none below it with limits.
            group = root / line[3:].lstrip("/")
            for parent in (group.parent, group):
                if "memory" in _text(parent / "cgroup.subtree_control").split():
                    yield parent, "memory.max"


def _limit(folder: Path, file: str, memory_bytes: int) -> None:
    (folder / file).write_text(str(memory_bytes))
    swap, value = ("memory.swap.max", "0") if file == "memory.max" else ("", str(memory_bytes))
    with suppress(OSError):  # not every kernel counts swap
        (folder / (swap or "memory.memsw.limit_in_bytes")).write_text(value)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno not in (errno.EBUSY, errno.ENOTEMPTY)
    return True


def _members(folder: Path) -> list[int]:
    return [int(text) for text in _text(folder / "cgroup.procs").split()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
