"""Stored bytes as a response, whole or in part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from wherry.core.errors import UserErrorException

from .problems import respond

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})\Z")
_READ = 1 << 20


class RangeError(UserErrorException):
    """There are no such bytes."""

    http_status = 416


class _FileResponse(StreamingResponse):
    """Closes the file also when nobody reads a byte of it."""

    def __init__(self, file: BinaryIO, pieces: Iterator[bytes], **options: Any) -> None:
        super().__init__(pieces, **options)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def read_range(
    file: BinaryIO, size: int, wanted: str | None, *, digest: str = "", only_of: str | None = None
) -> Response:
    """Honours one ``Range``; anything else gives the whole file. Closes the file.

    ``only_of`` is ``If-Range``: of another content than that, the whole is given.
    """
    tag = f'"{digest}"'
    start, stop = _bounds(wanted if only_of in (None, tag) else None, size)
    if start is None:
        file.close()
        reply = respond(RangeError(f"the file has {size} bytes; {wanted!r} is beyond them"))
        reply.headers["Content-Range"] = f"bytes */{size}"
        return reply
    headers = {"Accept-Ranges": "bytes", "Content-Length": str(stop - start)}
    if digest:
        headers["ETag"] = tag
    whole = (start, stop) == (0, size)
    if not whole:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return _FileResponse(
        file,
        _pieces(file, start, stop),
        status_code=200 if whole else 206,
        headers=headers,
        media_type="application/octet-stream",
    )


def _bounds(wanted: str | None, size: int) -> tuple[int | None, int]:
    match = _RANGE.match(wanted or "")
    if not match or match.group(0) == "bytes=-":
        return 0, size
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size) if int(last) else (None, 0)
    stop = min(int(last) + 1, size) if last else size
    return (int(first), stop) if int(first) < stop else (None, 0)


def _pieces(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    file.seek(start)
    while start < stop and (piece := file.read(min(_READ, stop - start))):
        start += len(piece)
        yield piece
