"""A full disk, said plainly."""

from __future__ import annotations

import errno
import os
from typing import Optional

from wherry.builds.cache import Cache
from wherry.builds.error import BuildError


def disk_full(cache: Cache) -> BuildError:
    return BuildError(
        f"there is no space left for environments in {cache.root}",
        hint="make room, or remove environments that nothing uses: wherry environment prune",
    )


def check_space(output: str, cache: Cache) -> None:
    """Raises if that is what a program died of."""
    if os.strerror(errno.ENOSPC) in output or os.strerror(errno.EDQUOT) in output:
        raise disk_full(cache)


def from_os(error: OSError, cache: Cache) -> Optional[BuildError]:
    return disk_full(cache) if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
