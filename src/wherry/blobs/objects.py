"""Blobs in a bucket: S3, Google Cloud Storage or Azure Blob Storage, through one library."""

from __future__ import annotations

import io
import os
import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from wherry.core.errors import NotFoundError, WherryError

from .base import Blob
from .known import Known
from .receiving import place_of, receive
from .trouble import trouble

T = TypeVar("T")

_AT_ONCE = 16
_AHEAD = 32
_SMALL = 1 << 20
_IN_MEMORY = 16 << 20
_PART = 8 << 20
_MOST_PARTS = 9_000  # S3 takes 10,000
_FIRST_READ, _LAST_READ = 1 << 20, 8 << 20


class ObjectBlobStore:
    """One object per blob, named as its file would be in a folder; whole or not there at all.

    Contents are received on this machine first, since their digest is their name. ``Known`` says
    what the bucket has, and when it was last asked for, which a bucket cannot tell.
    """

    def __init__(self, store: Any, name: str, local: Path) -> None:
        import obstore  # those alone who have a bucket pay for it
        from obstore.exceptions import BaseError

        self._library: Any = obstore
        self._failure = BaseError
        self._store = store
        self._name = name
        self._incoming = local / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._known = Known(local / "known", name)
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bucket")

    def check(self) -> None:
        """Raises what is wrong with the bucket or the credentials."""
        with self._asked():
            next(iter(self._library.list(self._store, chunk_size=1)), None)

    def put(self, chunks: Iterable[bytes], *, expected: str | None = None) -> Blob:
        return self.put_many([(expected, chunks)])[0]

    def put_many(self, contents: Iterable[tuple[str | None, Iterable[bytes]]]) -> list[Blob]:
        draft = f"{self._incoming}/{secrets.token_hex(8)}"
        received: list[tuple[str, Blob, bytes | None]] = []
        held = 0
        try:
            for number, (expected, chunks) in enumerate(contents):
                path = f"{draft}-{number}"
                received.append((path, Blob("", 0), None))
                blob = receive(path, expected, chunks)
                data = None
                if blob.size <= _SMALL and held + blob.size <= _IN_MEMORY:
                    held += blob.size
                    data = Path(path).read_bytes()
                    os.unlink(path)
                received[-1] = (path, blob, data)
            wanted = {blob.digest: (path, blob, data) for path, blob, data in received}
            self._each(self._send, wanted.values())
        finally:
            for path, _, _ in received:
                with suppress(FileNotFoundError):
                    os.unlink(path)
        return [blob for _, blob, _ in received]

    def keep(self, path: str, blob: Blob) -> None:
        self._send((path, blob, None))
        os.unlink(path)

    def open(self, digest: str) -> BinaryIO:
        size = self.size(digest)
        if size is None:
            raise _unknown(digest)
        return cast(BinaryIO, _Reader(self._read, digest, size))

    def open_many(self, digests: Iterable[str]) -> Iterator[BinaryIO]:
        waiting: deque[Future[BinaryIO]] = deque()
        try:
            for digest in digests:
                waiting.append(self._pool.submit(self._fetch, digest))
                if len(waiting) >= _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()

    def has(self, digest: str) -> bool:
        return self.size(digest) is not None

    def size(self, digest: str) -> int | None:
        place = place_of(digest)
        with self._lock:
            found = self._known.size(digest)
        if found is not None:
            return found
        with self._sending(digest):  # nor is it removed between the look and the note
            try:
                with self._asked():
                    found = int(self._library.head(self._store, place)["size"])
            except FileNotFoundError:
                return None
            self._known.add(digest, found)
        return found

    def remove_stale(self, digest: str, before: datetime) -> bool:
        place = place_of(digest)
        with self._lock:
            if self._busy[digest] or not self._known.is_stale(digest, before):
                return False
            try:
                with self._asked():
                    stored: datetime = self._library.head(self._store, place)["last_modified"]
                    if stored.astimezone(UTC) >= before:
                        return False
                    self._known.remove(digest)
                    self._library.delete(self._store, place)
            except FileNotFoundError:
                self._known.remove(digest)
                return False
        return True

    def digests(self) -> Iterator[str]:
        with self._asked():
            for page in self._library.list(self._store):
                for found in page:
                    shard, _, digest = found["path"].rpartition("/")
                    if len(digest) == 64 and shard == digest[:2]:
                        yield digest

    def _send(self, received: tuple[str, Blob, bytes | None]) -> None:
        path, blob, data = received
        large = blob.size > _PART
        known = self.has(blob.digest) if large else self._known.size(blob.digest) is not None
        if known:  # which is not stale now: it is about to be referred to
            return
        with self._sending(blob.digest):
            part = max(_PART, blob.size // _MOST_PARTS)
            with self._asked():
                self._library.put(
                    self._store,
                    place_of(blob.digest),
                    Path(path) if data is None else data,
                    use_multipart=large,
                    chunk_size=part,
                    max_concurrency=4,
                )
            self._known.add(blob.digest, blob.size)

    @contextmanager
    def _sending(self, digest: str) -> Iterator[None]:
        """It is not removed meanwhile."""
        with self._lock:
            self._busy[digest] += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy[digest] -= 1
                if not self._busy[digest]:
                    del self._busy[digest]

    def _fetch(self, digest: str) -> BinaryIO:
        """A small one with its content at hand, in one request."""
        try:
            with self._asked():
                found = self._library.get(self._store, place_of(digest))
                size = int(found.meta["size"])
                if size <= _SMALL:
                    return io.BytesIO(bytes(found.bytes()))
        except FileNotFoundError:
            self._known.remove(digest)
            raise _unknown(digest) from None
        return cast(BinaryIO, _Reader(self._read, digest, size))

    def _read(self, digest: str, start: int, length: int) -> bytes:
        try:
            with self._asked():
                place = place_of(digest)
                return bytes(
                    self._library.get_range(self._store, place, start=start, length=length)
                )
        except FileNotFoundError:
            self._known.remove(digest)
            raise _unknown(digest) from None

    def _each(self, act: Callable[[Any], T], items: Iterable[Any]) -> None:
        """At once; the first failure is raised when all have come to an end."""
        futures = [self._pool.submit(act, item) for item in items]
        failures = [failure for each in futures if (failure := each.exception())]
        if failures:
            raise failures[0]

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except self._failure as error:
            raise trouble(self._name, error) from None


class _Reader(io.RawIOBase):
    """Reads ahead in pieces that grow: the start of a file costs little, all of it few requests."""

    def __init__(self, read: Callable[[str, int, int], bytes], digest: str, size: int) -> None:
        self._read = read
        self._digest = digest
        self._size = size
        self._offset = 0
        self._block = memoryview(b"")
        self._length = _FIRST_READ

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = base + offset
        self._block = memoryview(b"")
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        if not self._block and self._offset < self._size:
            length = min(self._length, self._size - self._offset)
            self._block = memoryview(self._read(self._digest, self._offset, length))
            if len(self._block) != length:
                raise WherryError(f"the content with digest {self._digest} is cut short")
            self._length = min(self._length * 2, _LAST_READ)
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        self._offset += count
        return count


def _unknown(digest: str) -> NotFoundError:
    return NotFoundError(f"there is no content with digest {digest}")
