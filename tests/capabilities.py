"""Root for whom modes count, for tests of files that cannot be read."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_OVERRIDES_MODES = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@contextmanager
def modes_count() -> Iterator[None]:
    """This thread and those that it starts may not read what a file's mode forbids."""
    if os.getuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; and the upper half of each
    _check(libc.capget(header, held))
    fewer = (ctypes.c_uint32 * 6)(*held)
    fewer[0] &= ~_OVERRIDES_MODES
    _check(libc.capset(header, fewer))
    try:
        yield
    finally:
        _check(libc.capset(header, held))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be changed")
