"""Bytes on their way out."""

from __future__ import annotations

import io
from collections.abc import Iterator

_BLOCK = 1 << 20


def gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces joined: a thousand small files are a few writes."""
    buffer = io.BytesIO()
    for piece in pieces:
        buffer.write(piece)
        if buffer.tell() >= _BLOCK:
            yield buffer.getvalue()
            buffer = io.BytesIO()
    yield buffer.getvalue()
