"""Where bytes live: content-addressed blobs, and logs that grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol


@dataclass(frozen=True)
class Blob:
    digest: str
    size: int


class BlobStore(Protocol):
    """Immutable bytes named by their SHA-256. Safe under concurrent writers and kills."""

    def put(self, chunks: Iterable[bytes], *, expected: str | None = None) -> Blob:
        """Store the bytes; durable on return. Storing the same twice is one blob.

        With ``expected``, other content raises ``UserErrorException`` and stores nothing.
        """
        ...

    def put_many(self, contents: Iterable[tuple[str | None, Iterable[bytes]]]) -> list[Blob]:
        """Store each content, expected or not, in less time than one by one.

        A content is read to its end before the next one is asked for.
        """
        ...

    def keep(self, path: str, blob: Blob) -> None:
        """Store a file of this machine, whose content is that; durable on return, the file gone."""
        ...

    def open(self, digest: str) -> BinaryIO:
        """Raises ``NotFoundError`` for an unknown digest."""
        ...

    def open_many(self, digests: Iterable[str]) -> Iterator[BinaryIO]:
        """Each in turn, in less time than one by one; the caller closes them."""
        ...

    def has(self, digest: str) -> bool:
        """Whether it is there; asking keeps it from being stale for a while."""
        ...

    def size(self, digest: str) -> int | None:
        """How many bytes it has, None if it is not there; asking is like asking ``has``."""
        ...

    def remove_stale(self, digest: str, before: datetime) -> bool:
        """Remove it unless it was stored or asked for since ``before``; whether it was removed."""
        ...

    def digests(self) -> Iterator[str]: ...


class LogStore(Protocol):
    """Append-only bytes, written in pieces with offsets so that each byte counts once."""

    def append(self, key: str, offset: int, *pieces: bytes) -> int:
        """Add what is new of these bytes and return the size. A gap raises ``ConflictError``."""
        ...

    def read(self, key: str, offset: int, limit: int) -> bytes: ...

    def size(self, key: str) -> int:
        """0 for an unknown key."""
        ...

    def remove(self, key: str) -> None: ...
