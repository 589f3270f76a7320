"""Files brought to the disk together."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

_FEW = 4


def sync_all(paths: Sequence[str]) -> None:
    """Return when the contents of all these files, which lie in one folder, are on the disk."""
    if len(paths) <= _FEW or not _sync_file_system(os.path.dirname(paths[0])):
        for path in paths:
            _sync(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file_system(folder: str) -> bool:
    """One call for everything on the folder's file system (Linux); False where it cannot be."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return int(call(descriptor)) == 0
    finally:
        os.close(descriptor)
