"""The mark that says that an environment is in use: a lock that ends with its last holder."""

from __future__ import annotations

import fcntl
import os
from typing import Optional


class Use:
    """A shared lock on a file. The kernel ends it with the last process that has it open."""

    def __init__(self, descriptor: Optional[int]) -> None:
        self._descriptor = descriptor

    @classmethod
    def of(cls, path: str) -> Use:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return cls(descriptor)

    def fileno(self) -> Optional[int]:
        """To be inherited by the command; None where nothing needs a mark."""
        return self._descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
