"""A snapshot's files by their paths, as lines of canonical JSON: cheap to keep and to change."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import cached_property
from typing import Collection, Dict, Iterable, Iterator, List, Sequence

from .errors import UserErrorException
from .snapshots import FileEntry, folders_of

_NOTHING = '{"size":0}'
_PIECE = 512


class Tree:
    """The files of one snapshot and their size. Never changed; ``changed`` makes another.

    Its text is kept in pieces, which trees with the same paths share: of ten thousand files most
    submissions change one.
    """

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

    def content(self) -> Iterator[bytes]:
        """The canonical JSON, by which the snapshot is named, in pieces."""
        before = b"["
        for piece in self._pieces:
            yield before
            yield piece
            before = b","
        yield b"]" if self._pieces else b"[]"

    def changed(self, entries: Sequence[FileEntry], removed: Collection[str]) -> Tree:
        """With these files put in or in the place of others, and without those removed."""
        lines, size = dict(self._lines), self.size
        for path in removed:
            size -= _size_of(lines.pop(path, _NOTHING))
        for entry in entries:
            size += entry.size - _size_of(lines.get(entry.path, _NOTHING))
            lines[entry.path] = entry.canonical()
        if lines.keys() == self._lines.keys():
            return self._alike(lines, size, [entry.path for entry in entries])
        _check_folders(lines)
        return Tree(dict(sorted(lines.items())), size)

    def _alike(self, lines: Dict[str, str], size: int, others: Iterable[str]) -> Tree:
        """A tree with the same paths, of which these are others."""
        tree, pieces = Tree(lines, size), list(self._pieces)
        for number in {bisect_right(self._firsts, path) - 1 for path in others}:
            paths = self._paths[number * _PIECE : (number + 1) * _PIECE]
            pieces[number] = _piece(lines[path] for path in paths)
        tree._paths, tree._firsts, tree._pieces = self._paths, self._firsts, pieces
        return tree

    @cached_property
    def _paths(self) -> List[str]:
        return list(self._lines)

    @cached_property
    def _firsts(self) -> List[str]:
        return self._paths[::_PIECE]

    @cached_property
    def _pieces(self) -> List[bytes]:
        lines = list(self._lines.values())
        return [_piece(lines[at : at + _PIECE]) for at in range(0, len(lines), _PIECE)]


def _piece(lines: Iterable[str]) -> bytes:
    return ",".join(lines).encode("ascii")


def tree_id(tree: Tree) -> str:
    return hashlib.sha256(b"".join(tree.content())).hexdigest()


def _size_of(line: str) -> int:
    """Which a canonical line ends with."""
    return int(line[line.rindex(":") + 1 : -1])


def _check_folders(lines: Dict[str, str]) -> None:
    for folder in folders_of(lines):
        if folder in lines:
            raise UserErrorException(
                f"the path {folder!a} is both a file and a folder in the snapshot"
            )
