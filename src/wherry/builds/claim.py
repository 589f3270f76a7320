"""One builder at a time: the claim on an environment that others wait for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Iterator

from wherry.builds.talk import Talk

_LOOK_S = 0.1


@contextlib.contextmanager
def claim(folder: str, key: str, name: str, talk: Talk) -> Iterator[None]:
    """Waits its turn, saying for what.

    Programs that the build starts inherit the descriptor: a builder that is killed leaves its claim
    to them until they have ended too, so that nobody clears a folder that is still written to.
    """
    path = os.path.join(folder, key + ".lock")
    says = os.path.join(folder, key + ".says")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _wait(descriptor, says, name, talk)
        with talk.holding(descriptor, says):
            yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, says: str, name: str, talk: Talk) -> None:
    said = None
    while not _taken(descriptor):
        talk.check()
        line = _read(says)
        if line != said:
            said = line
            talk.say(f"waiting for another build of {name}" + (f": {line}" if line else ""))
        time.sleep(_LOOK_S)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
