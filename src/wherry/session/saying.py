"""The session's log, which is its standard output."""

from __future__ import annotations

import sys
import threading

_lock = threading.Lock()


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
