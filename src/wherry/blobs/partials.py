"""Large contents that come in several goes: what has arrived waits here for the rest."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from wherry.core.errors import ConflictError, ServerUnavailableError

from .base import Blob, BlobStore

_READ = 1 << 20
_MOST_REMEMBERED = 10_000
_PATIENCE_S = 20.0


class _Upload:
    """``writer`` is the request that goes on with it; ``blob`` what became of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.writer: object = None
        self.blob: Blob | None = None


class Partials:
    """One file per upload, which outlives the connection and the server that received it.

    Its size is the record of what has arrived. A sender who was cut off asks for it and goes on
    from there; a request of his that still hangs in the network then writes nothing more. What
    became a blob is remembered for a while: an answer may get lost, too.
    """

    def __init__(self, root: Path, blobs: BlobStore) -> None:
        self._root = root
        self._blobs = blobs
        self._uploads: OrderedDict[str, _Upload] = OrderedDict()
        self._lock = threading.Lock()

    def size(self, key: str) -> int:
        """How many bytes of it are here, all of them if it is a blob; 0 for an unknown key."""
        upload = self._upload(key)
        with _held(upload):
            if self._is_there(upload):
                assert upload.blob is not None
                return upload.blob.size
            try:
                return os.stat(self._path(key)).st_size
            except FileNotFoundError:
                return 0

    def put(self, key: str, offset: int, chunks: Iterable[bytes]) -> Blob:
        """Add these bytes, which are all from ``offset`` on, and make a blob of the whole.

        A gap raises ``ConflictError``. When ``chunks`` break off, what came of them stays.
        """
        upload, me = self._upload(key), object()
        with _held(upload):
            if self._is_there(upload) and upload.blob is not None and upload.blob.size == offset:
                return upload.blob
            upload.writer, upload.blob = me, None
            descriptor = self._open(key, offset)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            digest = _digest_of(file.fileno(), offset)
            for chunk in chunks:
                with _held(upload, me):
                    _write(file.fileno(), chunk, offset)
                digest.update(chunk)
                offset += len(chunk)
        with _held(upload, me):
            blob = Blob(digest.hexdigest(), offset)
            self._blobs.keep(self._path(key), blob)
            upload.blob = blob
        return blob

    def remove_stale(self, before: datetime) -> None:
        """Those that nobody has gone on with since."""
        for path in self._root.glob("*"):
            try:
                if path.stat().st_mtime < before.timestamp():
                    path.unlink()
            except FileNotFoundError:
                continue

    def _upload(self, key: str) -> _Upload:
        with self._lock:
            upload = self._uploads.setdefault(key, _Upload())
            self._uploads.move_to_end(key)
            while len(self._uploads) > _MOST_REMEMBERED:
                self._uploads.popitem(last=False)
            return upload

    def _is_there(self, upload: _Upload) -> bool:
        return upload.blob is not None and self._blobs.has(upload.blob.digest)

    def _open(self, key: str, offset: int) -> int:
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path(key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(descriptor).st_size
        if offset > size:
            os.close(descriptor)
            raise ConflictError(f"bytes {size} to {offset} of the upload are missing", size=size)
        os.ftruncate(descriptor, offset)
        return descriptor

    def _path(self, key: str) -> str:
        return f"{self._root}/{hashlib.sha256(key.encode()).hexdigest()}"


@contextmanager
def _held(upload: _Upload, writer: object = None) -> Iterator[None]:
    """Nobody else works on it; with ``writer``, which must still be the one that does."""
    if not upload.lock.acquire(timeout=_PATIENCE_S):
        raise ServerUnavailableError("the upload is still being stored: ask again later")
    try:
        if writer is not None and upload.writer is not writer:
            raise ConflictError("another request goes on with this upload")
        yield
    finally:
        upload.lock.release()


def _digest_of(descriptor: int, stop: int) -> hashlib._Hash:
    digest, offset = hashlib.sha256(), 0
    while offset < stop and (piece := os.pread(descriptor, min(_READ, stop - offset), offset)):
        digest.update(piece)
        offset += len(piece)
    return digest


def _write(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        count = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[count:], offset + count
