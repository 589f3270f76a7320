"""What was downloaded, shared by all builds, and removed only while there is none."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Iterator

from wherry.builds.cache import Cache
from wherry.builds.talk import Talk
from wherry.builds.use import Use

SHARED = ("uv", "conda", "wheels")
_MARK = "downloads"


@contextlib.contextmanager
def using_downloads(cache: Cache, talk: Talk) -> Iterator[None]:
    """Programs that are started meanwhile inherit the mark."""
    use = Use.of(cache.use_file(_MARK))
    descriptor = use.fileno()
    assert descriptor is not None
    talk.descriptors.append(descriptor)
    try:
        for part in SHARED:  # which remember addresses as they were asked for, passwords and all
            os.makedirs(cache.path(part), mode=0o700, exist_ok=True)
        yield
    finally:
        talk.descriptors.remove(descriptor)
        use.close()


def remove_downloads(cache: Cache) -> None:
    """Environments keep their files: they are linked, and a file lives as long as a link to it."""
    descriptor = os.open(cache.use_file(_MARK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # a build goes on
    else:
        for part in SHARED:
            cache.discard(cache.path(part))
    finally:
        os.close(descriptor)
