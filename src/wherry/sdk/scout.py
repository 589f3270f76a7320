"""A program that looks at the remembered folders of a large tree, the last one first.

The walk begins with the first and need not look where the scout has been: two threads of one
interpreter would only take turns. It is started by its path, without ``site``, and imports next to
nothing (``posix`` is the C half of ``os``), so that it is at work within a few milliseconds.
"""

from __future__ import annotations

import gc
import sys
from _operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Callable, List, Mapping, Optional, Tuple

    Index = List[Tuple[str, str, int, int, int, int, int, int]]
else:
    import posix as os

stat_key: Callable[[os.stat_result], Tuple[int, ...]] = attrgetter(
    "st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)
"""What must be the same for a file to be the same. Its ``hash`` is what is remembered: Python's
hash of numbers is the same in every process, and loads in less than half the time of the numbers.
"""

NO_MARK = -1
"""Remembered of what must be looked at again: Python's ``hash`` is never -1."""

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
IN_FIELD, IN_REPORT = b"\0", b"\0\0"
FOLDER, LINK, OTHER = b"d", b"l", b"o"


def untouched(folder: int, mark: int, known: Mapping[str, int]) -> bool:
    """Whether an open folder, which held these files and nothing else, is as it was.

    A folder that says so itself need not be read: no name in it has come, gone or moved.
    """
    if mark == NO_MARK or mark != hash(stat_key(os.fstat(folder))):
        return False
    stat = os.stat
    try:
        for name, known_mark in known.items():
            if hash(stat_key(stat(name, dir_fd=folder, follow_symlinks=False))) != known_mark:
                return False
    except OSError:
        return False
    return True


def unknown(entries: List[os.DirEntry[str]], known: Mapping[str, int]) -> List[os.DirEntry[str]]:
    """Those that are not the files that are remembered. The innermost loop of every capture."""
    get = known.get
    try:
        return [
            entry
            for entry in entries
            if (mark := get(entry.name)) is None
            or mark != hash(stat_key(entry.stat(follow_symlinks=False)))
        ]
    except OSError:
        return entries


def read_index(content: bytes, start: int) -> Tuple[Index, int]:
    """What is remembered of each folder: its path, four values, the lengths of three parts.

    With it, where the parts begin.
    """
    at = content.index(b"\n", start) + 1
    end = at + int(content[start:at])
    fields = iter(content[at:end].decode("utf-8").split("\0")[:-1])
    return [
        (path, rules, int(size), int(largest), int(mark), int(names), int(marks), int(text))
        for path, rules, size, largest, mark, names, marks, text in zip(*[fields] * 8)
    ], end


def write_index(index: Index) -> bytes:
    content = "".join([f"{each}\0" for row in index for each in row]).encode("utf-8")
    return b"%d\n%s" % (len(content), content)


def identity(found: os.stat_result) -> Tuple[int, int, int]:
    """By which a file that is only ever replaced is known."""
    return found.st_ino, found.st_size, found.st_ctime_ns


def main(file: str, start: str, root: str, *expected: str) -> None:
    with open(file, "rb", buffering=0) as stream:
        if tuple(map(str, identity(os.fstat(stream.fileno())))) != expected:
            return
        content = stream.readall()
    index, at = read_index(content, int(start))
    for row in index:
        at += sum(row[5:])
    for number in range(len(index) - 1, -1, -1):
        path, _, _, _, mark, names, marks, text = index[number]
        at -= names + marks + text
        if path.startswith("/"):
            continue  # files elsewhere, to which links of a folder lead
        middle = at + names
        values = memoryview(content)[middle : middle + marks].cast("q")
        known = dict(zip(content[at:middle].decode("utf-8").split("/"), values))
        rest = _look(f"{root}/{path}", mark, known)
        if rest is not None:
            os.write(1, IN_FIELD.join([b"%d" % number, *rest]) + IN_REPORT)


def _look(folder: str, mark: int, known: Mapping[str, int]) -> Optional[List[bytes]]:
    """What else there is beside the remembered files; None if these are not all as they were."""
    try:
        descriptor = os.open(folder, OPEN_FOLDER)
        try:
            if untouched(descriptor, mark, known):
                return []
            with os.scandir(descriptor) as listing:
                entries = list(listing)
            rest = unknown(entries, known)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if len(entries) - len(rest) != len(known):
        return None
    return [_kind(entry) + _encoded(entry.name) for entry in rest]


def _encoded(name: str) -> bytes:
    return name.encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


def _kind(entry: os.DirEntry[str]) -> bytes:
    if entry.is_dir(follow_symlinks=False):
        return FOLDER
    return LINK if entry.is_symlink() else OTHER


if __name__ == "__main__":
    gc.disable()
    main(*sys.argv[1:])
