"""Sizes as Docker writes them: ``512m``, ``2g``, ``2GB``, a number of bytes."""

from __future__ import annotations

import re

from .error import ContainerError

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: object, what: str) -> int:
    found = re.match(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?\s*\Z", str(text), re.IGNORECASE)
    if not found:
        raise ContainerError(f"{what} is {str(text)!r}, which is no size; write it like 2g or 512m")
    return int(float(found.group(1)) * _UNITS[found.group(2).lower()])
