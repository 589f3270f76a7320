"""What the driver contract looks at: the traces that its programs leave in the world."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from wherry.core.lifecycle import Observation
from wherry.drivers.base import Driver, Handle

ODD = "odd 'näme' \"q\" $HOME `id` ; & (x) {dir} *"
ODD_TEXTS = [
    "",
    " ",
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "a\nb\ttab",
    "\\",
    "*",
    "日本語 é",
    "-c",
    "{dir}",
]

STILL_S = 0.5


def look(driver: Driver, handle: Handle) -> Observation:
    return driver.observe([handle])[handle]


def read_whole_log(driver: Driver, handle: Handle) -> bytes:
    parts: list[bytes] = []
    while part := driver.read_log(handle, sum(map(len, parts)), 1 << 20):
        parts.append(part)
    return b"".join(parts)


def beats(path: Path) -> int:
    """How often something has written there."""
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def starts(folder: Path) -> int:
    return beats(folder / "starts")


def assert_still(*paths: Path, settle_s: float = 0.0) -> None:
    """Nothing writes to these files any more, whatever the driver says."""
    time.sleep(settle_s)
    before = [beats(path) for path in paths]
    time.sleep(STILL_S)
    after = [beats(path) for path in paths]
    assert after == before, "something still runs"


def fork(act: Callable[[], object]) -> int:
    """Act in a process that then dies with its whole group, as if by a power cut."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        try:
            act()
        finally:
            os.killpg(0, signal.SIGKILL)
    return pid


def ids_in(handle: str) -> Sequence[str]:
    """The parts of a handle that look like an attempt's id."""
    return [part for part in handle.replace('"', " ").split() if len(part) == 36]
