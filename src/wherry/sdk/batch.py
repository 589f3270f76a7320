"""The bodies in which the contents of a snapshot are sent."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional, Tuple

from ..core.snapshots import FileEntry
from .hash_cache import CHUNK

BATCH_BYTES = 32 * 2**20
BATCH_FILES = 10_000  # the server brings those of one request to its disk together

Progress = Callable[[int, int], None]


class Batch:
    """The body of one ``POST /blobs``: ``length`` bytes, the same ones each time it is iterated.

    Small contents are in memory, and known to be right; a large one is read as it is sent.
    """

    def __init__(self, chunks: Callable[[FileEntry], Iterator[bytes]]) -> None:
        self.count = self.length = 0
        self._chunks = chunks
        self._frames: List[Tuple[FileEntry, Optional[bytes]]] = []
        self._watch: Callable[[int], None] = lambda sent: None

    @staticmethod
    def is_small(entry: FileEntry) -> bool:
        return entry.framed_bytes() <= BATCH_BYTES

    def has_room_for(self, entry: FileEntry) -> bool:
        fits = self.length + entry.framed_bytes() <= BATCH_BYTES and self.count < BATCH_FILES
        return fits or not self._frames

    def add(self, entry: FileEntry, content: Optional[bytes]) -> None:
        self.count += 1
        self.length += entry.framed_bytes()
        self._frames.append((entry, content))

    def watch(self, progress: Progress, done: int, total: int) -> None:
        self._watch = lambda sent: progress(done + sent, total)

    def __iter__(self) -> Iterator[bytes]:
        """In pieces of a size that suits a socket."""
        waiting, sent = bytearray(), 0
        for piece in self._pieces():
            waiting += piece
            if len(waiting) >= CHUNK:
                yield bytes(waiting)
                sent += len(waiting)
                self._watch(sent)
                waiting.clear()
        yield bytes(waiting)
        self._watch(sent + len(waiting))

    def _pieces(self) -> Iterator[bytes]:
        for entry, content in self._frames:
            yield entry.frame_header()
            if content is None:
                yield from self._chunks(entry)
            else:
                yield from (content[i : i + CHUNK] for i in range(0, len(content), CHUNK))
