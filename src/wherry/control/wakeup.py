"""What a reconciler sleeps on: a bell that any thread rings, and its driver's inbox."""

from __future__ import annotations

import os
import select
import weakref
from contextlib import suppress


class Wakeup:
    """Rung while nobody sleeps, it keeps the next sleep short."""

    def __init__(self, *descriptors: int) -> None:
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._poll = select.poll()
        for each in (self._reader, *descriptors):
            self._poll.register(each, select.POLLIN)
        self.rung = False
        weakref.finalize(self, _close, self._reader, self._writer)

    def ring(self) -> None:
        if not self.rung:
            self.rung = True
            with suppress(BlockingIOError):
                os.write(self._writer, b"\0")

    def sleep(self, seconds: float) -> None:
        """Until it rings, a descriptor can be read, or the time is over."""
        self._poll.poll(seconds * 1000)
        self.hush()

    def hush(self) -> None:
        self.rung = False  # first: who rings from now on writes, and is heard after this pass
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
