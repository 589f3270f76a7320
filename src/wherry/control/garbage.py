"""Takes away what nothing refers to any more: blobs of deleted runs, snapshots without runs."""

from __future__ import annotations

import json
import logging
import threading
from datetime import timedelta

from wherry.store import files, snapshots, wheels

from .plane import Plane

log = logging.getLogger(__name__)

# Longer than any submission takes: what was just sent is not referred to yet.
SPARED = timedelta(days=1)
# As long as a runner waits for a server that is away.
KEPT_PARTIAL = timedelta(days=7)
EVERY_S = 24 * 3600.0
_FIRST_S = 3600.0


def collect(plane: Plane, *, spared: timedelta = SPARED) -> int:
    """How many blobs were removed. Safe beside everything else, and when killed half-way."""
    before = plane.now() - spared
    with plane.write() as connection:
        snapshots.remove_unused(connection, before)
    with plane.database.read() as connection:
        used = files.digests(connection) | wheels.digests(connection)
        lists, contents = snapshots.used(connection)
    used |= lists | contents
    for digest in lists:
        used |= _contents(plane, digest)
    removed = 0
    for digest in plane.blobs.digests():
        if digest not in used and plane.blobs.remove_stale(digest, before):
            removed += 1
    plane.partials.remove_stale(plane.now() - KEPT_PARTIAL)
    return removed


class Collector:
    """Collects once a day, in a thread of its own."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="garbage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _loop(self) -> None:
        pause = _FIRST_S
        while not self._stopping.wait(pause):
            pause = EVERY_S
            try:
                log.info("removed %d blobs that nothing refers to", collect(self._plane))
            except Exception:  # tried again tomorrow
                log.exception("clearing away failed")


def _contents(plane: Plane, list_id: str) -> set[str]:
    with plane.blobs.open(list_id) as file:
        return {entry["digest"] for entry in json.load(file)}
