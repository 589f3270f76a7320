"""The session's log, which is its standard output."""

from __future__ import annotations

import sys
import threading
from typing import IO, Iterator

_LONGEST_LINE = 1 << 14
_lock = threading.Lock()


def lines(pipe: IO[bytes]) -> Iterator[bytes]:
    """What others write; a line that does not end comes in pieces."""
    while line := pipe.readline(_LONGEST_LINE):
        yield line


def say(sentence: str) -> None:
    write((sentence.rstrip("\n") + "\n").encode("utf-8", "replace"))


def write(data: bytes) -> None:
    """Bytes of others' output. A log that cannot be written to ends nothing."""
    with _lock:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except (OSError, ValueError):
            return
