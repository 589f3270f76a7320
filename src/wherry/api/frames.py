"""Many things in one body: ``<name> <size>\\n<size bytes>``, again and again."""

from __future__ import annotations

from collections.abc import Iterator

from wherry.core.errors import UserErrorException

_MAX_HEADER = 16384  # the longest path, percent-encoded
_MAX_DIGITS = 18


def frames(body: Iterator[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Each name with its content. The content must be read before the next frame is asked for."""
    reader = _Reader(body)
    while header := reader.line():
        name, _, size = header.rpartition(" ")
        if not name or not size.isdecimal() or len(size) > _MAX_DIGITS:
            raise UserErrorException(f"{header[:80]!r} does not begin a frame")
        yield name, reader.take(int(size))


class _Reader:
    def __init__(self, body: Iterator[bytes]) -> None:
        self._body = body
        self._buffer = b""

    def line(self) -> str:
        while b"\n" not in self._buffer:
            piece = next(self._body, b"")
            if not piece:
                break
            self._buffer += piece
            if len(self._buffer) > _MAX_HEADER and b"\n" not in self._buffer[:_MAX_HEADER]:
                raise UserErrorException("a frame's header is too long")
        line, newline, self._buffer = self._buffer.partition(b"\n")
        if line and not newline:
            raise UserErrorException("the body ends inside a frame's header")
        return line.decode("ascii", "replace")

    def take(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._buffer or next(self._body, b"")
            if not piece:
                raise UserErrorException(f"the body ends {size} bytes before its last frame does")
            self._buffer = piece[size:]
            size -= len(piece) - len(self._buffer)
            yield piece[: len(piece) - len(self._buffer)]
