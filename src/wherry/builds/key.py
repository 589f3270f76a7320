"""What environments are told apart by."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any, List

from wherry.builds.recipe import Recipe


def platform() -> str:
    """The system, the processor and the C library: what compiled packages depend on."""
    system = os.uname()
    libc = os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else ""
    parts = (system.sysname, system.machine, (libc or "").replace(" ", ""))
    return "-".join(part for part in parts if part).lower()


def spec_key(recipe: Recipe) -> str:
    """Of what was asked for, not yet of what it resolves to."""
    return digest(
        platform(),
        recipe.python or list(sys.version_info[:2]),
        recipe.channels,
        sorted(recipe.conda),
        sorted(recipe.pip),
        [_stamp(each) for each in sorted(recipe.pip)],
        recipe.options,
        recipe.as_of,
        recipe.strict,
        recipe.resolver if recipe.conda else None,
        recipe.lock,
    )


def digest(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _stamp(requirement: str) -> List[float]:
    """A file on this machine may change under its name."""
    _, found, path = requirement.partition("file://")
    if not found:
        return []
    try:
        status = os.stat(path.split("#")[0].split(";")[0].strip())
    except OSError:
        return []
    return [status.st_size, status.st_mtime]
