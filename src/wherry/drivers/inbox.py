"""The pipe through which runners of this machine hand over short runs."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any

_BLOCK = 1 << 16


class Inbox:
    """Runners write a line of JSON each to ``writer``; whoever else may write there, too.

    This process keeps the writing end open as well, so that reading it never ends.
    """

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)  # a runner that finds it full has another way
        self._begun = b""
        weakref.finalize(self, _close, self.reader, self.writer)

    def take(self) -> list[dict[str, Any]]:
        """What has come since the last call."""
        try:
            data = self._begun + os.read(self.reader, _BLOCK)
        except BlockingIOError:
            return []
        *lines, self._begun = data.split(b"\n")
        return [report for line in lines if (report := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        report = json.loads(line)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
