"""Stored bytes as a response, whole or in part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from fastapi.responses import Response, StreamingResponse

_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")
_READ = 1 << 20


def read_range(file: BinaryIO, size: int, wanted: str | None) -> Response:
    """Honours one ``Range``; anything else gives the whole file. Closes the file."""
    start, stop = _bounds(wanted, size)
    if start is None:
        file.close()
        return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
    headers = {"Accept-Ranges": "bytes", "Content-Length": str(stop - start)}
    whole = (start, stop) == (0, size)
    if not whole:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return StreamingResponse(
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
        return max(0, size - int(last)), size
    stop = min(int(last) + 1, size) if last else size
    return (int(first), stop) if int(first) < stop else (None, 0)


def _pieces(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while start < stop and (piece := file.read(min(_READ, stop - start))):
            start += len(piece)
            yield piece
