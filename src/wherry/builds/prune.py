"""Makes room: environments that are old, too many, or of no use; never one that is in use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from wherry.builds.cache import MARKER, Cache, read_json
from wherry.builds.downloads import remove_downloads

_WRITTEN_S = 3600.0


@dataclass(frozen=True)
class Entry:
    """One environment in the cache."""

    key: str
    name: str
    size: int
    used_at: float
    finished: bool
    in_use: bool


@dataclass(frozen=True)
class Pruned:
    removed: List[Entry]
    freed: int
    size: int  # what is left, in bytes


def entries(root: str) -> List[Entry]:
    """Those used longest ago first."""
    cache = Cache(root)
    found = [_entry(cache, key) for key in _list(cache.path("environments"))]
    return sorted(found, key=lambda entry: entry.used_at)


def prune(
    root: str,
    older_than_s: Optional[float] = None,
    limit: Optional[int] = None,
    everything: bool = False,
) -> Pruned:
    """By age since the last use, down to ``limit`` bytes, or all that nothing uses.

    For a limit the downloads go first: they cost a download, an environment costs a build.
    """
    cache = Cache(root)
    cache.make_folders()
    before = _size(cache.root)
    removed = [each for each in entries(root) if not each.finished and _remove(cache, each)]
    for entry in entries(root):
        old = older_than_s is not None and time.time() - entry.used_at > older_than_s
        if (old or everything) and _remove(cache, entry):
            removed.append(entry)
    if everything or (limit is not None and _size(cache.root) > limit):
        remove_downloads(cache)
    if limit is not None:
        removed += _shrink(cache, limit)
    _forget(cache)
    after = _size(cache.root)
    return Pruned(removed, max(0, before - after), after)


def _shrink(cache: Cache, limit: int) -> List[Entry]:
    removed: List[Entry] = []
    total = _size(cache.root)
    for entry in entries(cache.root):
        if total <= limit:
            break
        own = _size(cache.environment(entry.key), own=True)
        if _remove(cache, entry):
            removed.append(entry)
            total -= own
    return removed


def _entry(cache: Cache, key: str) -> Entry:
    folder = cache.environment(key)
    marker = read_json(os.path.join(folder, MARKER))
    try:
        used_at = os.stat(os.path.join(folder, MARKER) if marker else folder).st_mtime
    except OSError:
        used_at = 0.0
    name = str((marker or {}).get("name", "unfinished"))
    return Entry(key, name, _size(folder), used_at, marker is not None, not _idle(cache, key))


def _idle(cache: Cache, key: str) -> bool:
    held = _hold(cache, key)
    _let_go(held or ())
    return held is not None


def _hold(cache: Cache, key: str) -> Optional[Tuple[int, ...]]:
    """Both locks, or None while it is being built or used."""
    taken: List[int] = []
    for path in (cache.path("locks", key + ".lock"), cache.use_file(key)):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        taken.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _let_go(taken)
            return None
    return tuple(taken)


def _let_go(taken: Sequence[int]) -> None:
    for descriptor in taken:
        os.close(descriptor)


def _remove(cache: Cache, entry: Entry) -> bool:
    held = _hold(cache, entry.key)
    if held is None:
        return False
    try:
        cache.discard(cache.environment(entry.key))
    finally:
        _let_go(held)
    return True


def _forget(cache: Cache) -> None:
    """Answers that lead nowhere, and what removals and builders that died left behind."""
    there = set(_list(cache.path("environments")))
    for name in _list(cache.path("specs")):
        path = cache.path("specs", name)
        if _leads_nowhere(path, there):
            with contextlib.suppress(FileNotFoundError):  # another one prunes, too
                os.unlink(path)
    for name in _list(cache.path("wheels")):
        path = cache.path("wheels", name)
        if name.endswith(".part") and _unchanged(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    for name in _list(cache.path("trash")):
        shutil.rmtree(cache.path("trash", name), ignore_errors=True)
    for name in _list(cache.path("work")):
        held = _hold(cache, name)
        if held is not None:
            shutil.rmtree(cache.path("work", name), ignore_errors=True)
        _let_go(held or ())


def _leads_nowhere(path: str, there: Set[str]) -> bool:
    """One that is not whole yet has some time to become so."""
    if path.endswith(".json"):
        return (read_json(path) or {}).get("environment") not in there
    return _unchanged(path)


def _unchanged(path: str) -> bool:
    """For so long that nobody writes it any more."""
    try:
        return time.time() - os.stat(path).st_mtime > _WRITTEN_S
    except OSError:
        return False


def _list(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _size(folder: str, own: bool = False) -> int:
    """Bytes on the disk, each file once, however many links lead to it.

    ``own`` counts only what would be free without the folder: files with no link elsewhere.
    """
    links: Dict[Tuple[int, int], int] = {}
    bytes_of: Dict[Tuple[int, int], Tuple[int, int]] = {}
    for status in _files(folder):
        file = (status.st_dev, status.st_ino)
        links[file] = links.get(file, 0) + 1
        bytes_of[file] = (status.st_blocks * 512, status.st_nlink)
    return sum(
        size for file, (size, all_links) in bytes_of.items() if not own or links[file] == all_links
    )


def _files(folder: str) -> Iterator[os.stat_result]:
    stack = [folder]
    while stack:
        try:
            with os.scandir(stack.pop()) as found:
                for each in found:
                    if each.is_dir(follow_symlinks=False):
                        stack.append(each.path)
                    else:
                        yield each.stat(follow_symlinks=False)
        except OSError:
            continue  # gone meanwhile
