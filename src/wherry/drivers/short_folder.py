"""Folders for sockets of this server: private, and with a short path, as a socket's must be."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from glob import escape, glob

_PREFIX = "wherry-sockets-"
_LONGEST = 55  # the address of a socket has about a hundred bytes
_SHORT = "/tmp"  # noqa: S108  # the folder in it is ours alone
_NEW_S = 60.0


class ShortFolder:
    """Held by a lock for as long as its process lives; what others left is removed on the way."""

    def __init__(self) -> None:
        base = tempfile.gettempdir()
        if len(base) > _LONGEST:
            base = _SHORT
        _clear(base)
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _clear(base: str) -> None:
    """A server may be killed, and one that is told to end leaves nothing to be done at its exit."""
    for left in glob(os.path.join(escape(base), f"{_PREFIX}*")):
        with suppress(OSError):
            _remove_left(left)


def _remove_left(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        seen = os.fstat(lock)
        if seen.st_uid == os.getuid() and time.time() - seen.st_ctime > _NEW_S:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
