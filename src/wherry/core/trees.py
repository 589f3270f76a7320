"""A snapshot's files by their paths, as lines of canonical JSON: cheap to keep and to change."""

from __future__ import annotations

import hashlib
from typing import Dict, Iterable, Iterator, Sequence

from .errors import UserErrorException
from .snapshots import FileEntry, folders_of

_NOTHING = '{"size":0}'


class Tree:
    """The files of one snapshot and their size. Never changed; ``changed`` makes another."""

    def __init__(self, lines: Dict[str, str], size: int) -> None:
        self._lines = lines
        self.size = size

    @classmethod
    def of(cls, entries: Sequence[FileEntry]) -> Tree:
        lines = {entry.path: entry.canonical() for entry in sorted(entries)}
        return cls(lines, sum(entry.size for entry in entries))

    def __contains__(self, path: object) -> bool:
        return path in self._lines

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def text(self) -> str:
        """The canonical JSON, by which the snapshot is named."""
        return "[" + ",".join(self._lines.values()) + "]"

    def chunks(self) -> Iterator[bytes]:
        """The same, encoded: put together it would be copied once more."""
        yield b"["
        yield ",".join(self._lines.values()).encode("ascii")
        yield b"]"

    def changed(self, entries: Iterable[FileEntry], removed: Iterable[str]) -> Tree:
        """With these files put in or in the place of others, and without those removed."""
        lines, size = dict(self._lines), self.size
        for path in removed:
            size -= _size_of(lines.pop(path, _NOTHING))
        added = False
        for entry in entries:
            added = added or entry.path not in lines
            size += entry.size - _size_of(lines.get(entry.path, _NOTHING))
            lines[entry.path] = entry.canonical()
        if added:
            _check_folders(lines)
            lines = dict(sorted(lines.items()))
        return Tree(lines, size)


def tree_id(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _size_of(line: str) -> int:
    """Which a canonical line ends with."""
    return int(line[line.rindex(":") + 1 : -1])


def _check_folders(lines: Dict[str, str]) -> None:
    for folder in folders_of(lines):
        if folder in lines:
            raise UserErrorException(
                f"the path {folder!a} is both a file and a folder in the snapshot"
            )
