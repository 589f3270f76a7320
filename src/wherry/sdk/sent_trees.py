"""What a server was sent of a folder, so that next time only the differences need to be told."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from .scout import identity

UNUSED_DAYS = 30
# Below this many differing files, telling them again costs less than writing down the tree.
WORTH_KEEPING = 200


class SentTree(NamedTuple):
    """A snapshot that the server has, as pieces of lines of canonical JSON."""

    id: str
    pieces: Sequence[str]

    def differences(self, pieces: Sequence[str]) -> Tuple[List[str], Set[str]]:
        """The lines that only ``pieces`` have, and the paths of those that only the tree has."""
        old, new = set(self.pieces), set(pieces)
        gone = _lines(piece for piece in self.pieces if piece not in new)
        come = _lines(piece for piece in pieces if piece not in old)
        known = set(gone)
        added = [line for line in come if line not in known]
        lost = known.difference(come)
        return added, {json.loads(line)["path"] for line in lost}


# What was read last, and the file as it was then: a process often submits one folder again.
_last: Tuple[Tuple[object, ...], SentTree] = ((), SentTree("", []))


class SentTrees:
    """The last tree of each folder that one workspace of one server was sent. A cache."""

    def __init__(self, cache_dir: str, whose: str) -> None:
        self._folder = os.path.join(cache_dir, "trees")
        self._whose = whose

    def get(self, directory: str) -> Optional[SentTree]:
        global _last  # noqa: PLW0603 - one assignment, so that threads see all of it or nothing
        path = self._path(directory)
        try:
            with open(path, encoding="ascii") as file:
                found = (path, *identity(os.fstat(file.fileno())))
                known, tree = _last
                if found != known:
                    snapshot_id, *pieces = file.read().split("\n\n")
                    tree = SentTree(snapshot_id, pieces)
                    _last = found, tree
        except (OSError, ValueError):
            return None
        return tree

    def put(self, directory: str, tree: SentTree) -> None:
        path = self._path(directory)
        part = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(part, "x", encoding="ascii") as file:
                file.write("\n\n".join([tree.id, *tree.pieces]))
            os.replace(part, path)
            self._prune()

    def _path(self, directory: str) -> str:
        name = f"{self._whose}\n{directory}".encode("utf-8", "surrogateescape")
        return os.path.join(self._folder, hashlib.sha256(name).hexdigest()[:32])

    def _prune(self) -> None:
        oldest = time.time() - UNUSED_DAYS * 86400
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.path)


def _lines(pieces: Iterable[str]) -> List[str]:
    return [line for piece in pieces for line in piece.split("\n") if line]
