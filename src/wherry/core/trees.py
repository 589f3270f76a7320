"""A snapshot's files by their paths, as lines of canonical JSON: cheap to keep and to change."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import Collection, Dict, Iterator, List, Sequence

from .errors import UserErrorException
from .snapshots import FileEntry, folders_of

_NOTHING = '{"size":0}'
_PART = 512


class Tree:
    """The files of one snapshot and their size. Never changed; ``changed`` makes another.

    It consists of parts, which trees share: of ten thousand files most submissions change one.
    """

    def __init__(self, parts: List[_Part], size: int) -> None:
        self._parts = [part for part in parts if part.lines]
        self.size = size

    @classmethod
    def of(cls, entries: Sequence[FileEntry]) -> Tree:
        lines = {entry.path: entry.canonical() for entry in sorted(entries)}
        return cls(_cut(lines, _PART), sum(entry.size for entry in entries))

    def __contains__(self, path: str) -> bool:
        return bool(self._parts) and path in self._parts[self._place(path)].lines

    def __len__(self) -> int:
        return sum(len(part.lines) for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        for part in self._parts:
            yield from part.lines

    def content(self) -> Iterator[bytes]:
        """The canonical JSON, by which the snapshot is named, in pieces."""
        before = b"["
        for part in self._parts:
            yield before
            yield part.text
            before = b","
        yield b"]" if self._parts else b"[]"

    def changed(self, entries: Sequence[FileEntry], removed: Collection[str]) -> Tree:
        """With these files put in or in the place of others, and without those removed."""
        parts, size = self._parts or [_Part({})], self.size
        changed: Dict[int, Dict[str, str]] = {}

        def lines_around(path: str) -> Dict[str, str]:
            place = self._place(path)
            if place not in changed:
                changed[place] = dict(parts[place].lines)
            return changed[place]

        for path in removed:
            size -= _size_of(lines_around(path).pop(path, _NOTHING))
        for entry in entries:
            lines = lines_around(entry.path)
            size += entry.size - _size_of(lines.get(entry.path, _NOTHING))
            lines[entry.path] = entry.canonical()
        found: List[_Part] = []
        for place, part in enumerate(parts):
            found += part.changed(changed[place]) if place in changed else [part]
        tree = Tree(found, size)
        for entry in entries:
            if entry.path not in self:
                tree._check_new(entry.path)
        return tree

    @cached_property
    def _firsts(self) -> List[str]:
        return [next(iter(part.lines)) for part in self._parts]

    def _place(self, path: str) -> int:
        """The number of the part in which the path is, or would be."""
        return max(0, bisect_right(self._firsts, path) - 1)

    def _check_new(self, path: str) -> None:
        for folder in folders_of([path]):
            if folder in self:
                raise _both(folder)
        inside = f"{path}/"
        if self._first_from(inside).startswith(inside):
            raise _both(path)

    def _first_from(self, start: str) -> str:
        """The first path that does not come before this one; empty if there is none."""
        place = self._place(start)
        paths = [*self._parts[place].lines, *self._firsts[place + 1 : place + 2], ""]
        return paths[bisect_left(paths, start, hi=len(paths) - 1)]


class _Part:
    """Some of the lines, in the order of their paths."""

    def __init__(self, lines: Dict[str, str]) -> None:
        self.lines = lines

    @cached_property
    def text(self) -> bytes:
        return ",".join(self.lines.values()).encode("ascii")

    def changed(self, lines: Dict[str, str]) -> List[_Part]:
        if list(lines) == list(self.lines):
            return [_Part(lines)]
        return _cut(dict(sorted(lines.items())), 2 * _PART)


def _cut(lines: Dict[str, str], most: int) -> List[_Part]:
    if len(lines) <= most:
        return [_Part(lines)]
    items = list(lines.items())
    return [_Part(dict(items[at : at + _PART])) for at in range(0, len(items), _PART)]


def tree_id(tree: Tree) -> str:
    return hashlib.sha256(b"".join(tree.content())).hexdigest()


def _size_of(line: str) -> int:
    """Which a canonical line ends with."""
    return int(line[line.rindex(":") + 1 : -1])


def _both(path: str) -> UserErrorException:
    return UserErrorException(f"the path {path!a} is both a file and a folder in the snapshot")
