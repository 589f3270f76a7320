"""A source directory as it was captured: its id, its files, and their contents."""

from __future__ import annotations

import hashlib
import json
import os
from typing import (
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ..core.errors import SnapshotException
from ..core.snapshots import FileEntry, Notice, check_path, resolve
from . import settings
from .batch import Batch
from .hash_cache import HashCache
from .walk import Walk, why

AnyPath = Union[str, "os.PathLike[str]"]


class Snapshot:
    """A directory as it was when it was captured.

    ``id`` is that of the content: the same files give the same id anywhere. ``notices`` says what
    was left out or is not as it seems, ``warnings`` what is unwise, ``read`` which files had to be
    read: those that are not remembered from before.
    """

    def __init__(self, walk: Walk) -> None:
        self.directory = walk.root
        self.notices: List[Notice] = walk.notices
        self.warnings: List[str] = walk.warnings
        self.size = sum(files.totals()[1] for files in walk.groups)
        self.read = walk.read_paths
        self._links = walk.links
        self._reader = walk.reader
        self._changes: Dict[str, Optional[FileEntry]] = {}
        self._files: Optional[List[FileEntry]] = None
        self._set_pieces(walk.pieces())

    @classmethod
    def capture(
        cls,
        directory: AnyPath,
        *,
        cache_dir: Optional[AnyPath] = None,
        include: Optional[Iterable[AnyPath]] = None,
        warn: Optional[Callable[[str], None]] = None,
    ) -> Snapshot:
        """Read a directory, leaving out what its ignore files and our defaults say.

        ``include`` names paths below the directory that are taken even so, such as the script to
        run. ``warn`` is told of a large directory before its files are read, when it can still be
        interrupted.

        A link to a place inside the directory stays a link. A link to a file or folder outside is
        followed and its content captured; one to a folder around the directory, or to nothing, is
        left out. Also left out are sockets, pipes and devices, what cannot be read, and names that
        are not UTF-8. A file that keeps changing is captured as it was last read. Empty folders
        are not captured.

        >>> snapshot = Snapshot.capture("src")
        >>> upload(snapshot, client, "my-workspace")
        """
        root = os.path.realpath(directory)
        if not os.path.isdir(root):
            problem = "is not a directory" if os.path.exists(root) else "does not exist"
            raise SnapshotException(
                f"the source directory {os.fspath(directory)!r} {problem}",
                hint="source_directory names the folder that holds the script",
            )
        cache = HashCache(os.fspath(cache_dir or settings.load().cache), root)
        walk = Walk(root, cache, {_included(root, path) for path in include or ()})
        with cache.scouting() as scouting:
            walk.gather(scouting)
            walk.warn_if_large(warn)
            walk.read()
            snapshot = cls(walk)
            cache.save()
        return snapshot

    @property
    def files(self) -> List[FileEntry]:
        if self._files is None:
            self._files = [FileEntry(**fields) for fields in json.loads(self.text)]
        return self._files

    @property
    def text(self) -> str:
        """The canonical JSON, by which the snapshot is named."""
        return f"[{self._lines()}]"

    def __contains__(self, path: object) -> bool:
        """Whether the path leads to a captured file, through captured links if need be."""
        found = resolve(path, self._links) if isinstance(path, str) else None
        return found is not None and f'"path":{json.dumps(found)},' in self.text

    def batches(self, missing: Collection[str]) -> Iterator[Batch]:
        """The contents with these digests, framed, in requests of bounded size.

        A file that no longer holds what was captured is captured anew and not sent under its old
        digest: ``id`` has changed then, and the snapshot must be registered again.
        """
        batch = Batch(self._chunks)
        for entries in self.wanted(missing).values():
            entry, content = entries[0], None
            if Batch.is_small(entry):
                entry, content = self.content(entries)
                if content is None:
                    continue
            if not batch.has_room_for(entry):
                yield batch
                batch = Batch(self._chunks)
            batch.add(entry, content)
        if batch.count:
            yield batch
        if self._changes:
            self._apply_changes()

    def frames(self, missing: Collection[str]) -> Iterator[bytes]:
        """The batches, one after the other."""
        for batch in self.batches(missing):
            yield from batch

    def _set_pieces(self, pieces: List[str]) -> None:
        """``pieces`` are lines of canonical JSON, many to a piece."""
        self.pieces = pieces
        hasher = hashlib.sha256(b"[")
        hasher.update(self._lines().encode("ascii"))
        hasher.update(b"]")
        self.id = hasher.hexdigest()

    def _lines(self) -> str:
        return "\n".join(self.pieces).replace("\n", ",")

    def wanted(self, missing: Collection[str]) -> Dict[str, List[FileEntry]]:
        """The files with these digests."""
        lacking = frozenset(missing)
        wanted: Dict[str, List[FileEntry]] = {}
        for entry in self.files:
            if entry.digest in lacking:
                wanted.setdefault(entry.digest, []).append(entry)
        return wanted

    def content(self, entries: Sequence[FileEntry]) -> Tuple[FileEntry, Optional[bytes]]:
        """Of files that had one content when captured, one that still has it, and it.

        Where none has, all are captured anew.
        """
        for entry in entries:
            content = self._reader.content(self._real(entry.path), entry)
            if content is not None:
                return entry, content
        for entry in entries:
            self.capture_anew(entry.path)
        return entries[0], None

    def _chunks(self, entry: FileEntry) -> Iterator[bytes]:
        return self._reader.chunks(self._real(entry.path), entry)

    def capture_anew(self, path: str) -> None:
        """Take the file as it is now. One that changes again and again is held in the end."""
        real, again = self._real(path), path in self._changes
        try:
            reading = self._reader.hold(real) if again else self._reader.read(real)
        except OSError as error:
            self._changes[path] = None
            self.notices.append(Notice(path, f"left out: {why(error)}"))
            return
        self._changes[path] = reading.entry(path)
        if not again:
            self.notices.append(Notice(path, "changed after it was captured: taken anew"))

    def _apply_changes(self) -> None:
        changes = self._changes
        files = [changes.get(entry.path, entry) for entry in self.files]
        self._files = [entry for entry in files if entry is not None]
        self.size = sum(entry.size for entry in self._files)
        self._set_pieces([entry.canonical() for entry in sorted(self._files)])

    def _real(self, path: str) -> str:
        return f"{self.directory}/{path}"


def _included(root: str, path: AnyPath) -> str:
    return check_path(os.path.relpath(os.path.join(root, os.fspath(path)), root))
