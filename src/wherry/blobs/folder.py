"""Blobs and logs in a folder of the server's machine."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from wherry.core.errors import ConflictError, NotFoundError

from .base import Blob
from .receiving import place_of, receive
from .syncing import sync_all

_AT_ONCE = 512


class FolderBlobStore:
    """One file per blob, made under a temporary name, synced, then renamed.

    The files of ``put_many`` are synced together, which takes the disk little longer than one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)

    def put(self, chunks: Iterable[bytes], *, expected: str | None = None) -> Blob:
        return self.put_many([(expected, chunks)])[0]

    def put_many(self, contents: Iterable[tuple[str | None, Iterable[bytes]]]) -> list[Blob]:
        # Texts, not paths: of ten thousand small files, pathlib would be a third of the work.
        draft = f"{self._incoming}/{secrets.token_hex(8)}"
        drafts: dict[str, Blob] = {}
        try:
            for number, (expected, chunks) in enumerate(contents):
                path = f"{draft}-{number}"
                drafts[path] = Blob("", 0)
                drafts[path] = receive(path, expected, chunks)
            received = list(drafts.values())
            self._keep(drafts)
        finally:
            for path in drafts:
                with suppress(FileNotFoundError):
                    os.unlink(path)
        return received

    def keep(self, path: str, blob: Blob) -> None:
        drafts = {path: blob}
        self._keep(drafts)
        for left in drafts:
            os.unlink(left)

    def open(self, digest: str) -> BinaryIO:
        try:
            return open(self._path(digest), "rb")
        except FileNotFoundError:
            raise NotFoundError(f"there is no content with digest {digest}") from None

    def open_many(self, digests: Iterable[str]) -> Iterator[BinaryIO]:
        return map(self.open, digests)

    def has(self, digest: str) -> bool:
        return self.size(digest) is not None

    def size(self, digest: str) -> int | None:
        path = self._path(digest)
        try:
            os.utime(path)
            return os.stat(path).st_size
        except FileNotFoundError:
            return None

    def remove_stale(self, digest: str, before: datetime) -> bool:
        path = self._path(digest)
        try:
            if os.stat(path).st_mtime >= before.timestamp():
                return False
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def digests(self) -> Iterator[str]:
        for shard in sorted(self._root.glob("[0-9a-f][0-9a-f]")):
            yield from (path.name for path in shard.iterdir())

    def _keep(self, drafts: dict[str, Blob]) -> None:
        """Those that become blobs are no longer among the drafts."""
        fresh = [
            (path, blob.digest)
            for path, blob in drafts.items()
            if not self.has(blob.digest)  # which is not stale now: it is about to be referred to
        ]
        sync_all([path for path, _ in fresh])
        for path, digest in fresh:
            place = self._path(digest)
            try:
                os.rename(path, place)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                os.rename(path, place)
            del drafts[path]

    def _path(self, digest: str) -> str:
        return f"{self._root}/{place_of(digest)}"


def clear(incoming: Path) -> None:
    """Remove what was being received by someone who is gone."""
    for leftover in incoming.glob("*"):
        if leftover.is_dir():  # of an earlier version
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


class FolderLogStore:
    """One growing file per key; its size is the record of what has arrived."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks = [threading.Lock() for _ in range(64)]

    def append(self, key: str, offset: int, *pieces: bytes) -> int:
        path = self._path(key)
        with self._locks[hash(key) % len(self._locks)]:
            try:
                file = path.open("ab", 0)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file = path.open("ab", 0)
            with file:
                size = file.tell()
                if offset > size:
                    raise ConflictError(
                        f"bytes {size} to {offset} of the log are missing", size=size
                    )
                return size + _write(file.fileno(), list(pieces), size - offset)

    def read(self, key: str, offset: int, limit: int) -> bytes:
        try:
            with self._path(key).open("rb") as file:
                if offset >= os.fstat(file.fileno()).st_size:
                    return b""  # a file system may refuse to seek that far
                file.seek(offset)
                return file.read(limit)
        except FileNotFoundError:
            return b""

    def size(self, key: str) -> int:
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            return 0

    def remove(self, key: str) -> None:
        shutil.rmtree(self._path(key).parent, ignore_errors=True)

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._root / name[:2] / name / "log"


def _write(descriptor: int, pieces: list[bytes], skipped: int) -> int:
    """All but the first bytes. Nothing is put together: a gigabyte passes here in large pieces."""
    written = 0
    while pieces:
        if skipped >= len(pieces[0]):
            skipped -= len(pieces.pop(0))
            continue
        pieces[0], skipped = pieces[0][skipped:], 0
        count = os.writev(descriptor, pieces[:_AT_ONCE])
        written += count
        skipped = count
    return written
