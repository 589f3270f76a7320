"""Sizes in bytes, as people write and read them."""

from __future__ import annotations

import re
from typing import Union

from .errors import UserErrorException

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\Z", re.IGNORECASE)


def parse_bytes(text: Union[str, int]) -> int:
    """A size in bytes: ``4GB``, ``512Mi``, ``1500000``."""
    match = _SIZE.match(str(text).strip()) if not isinstance(text, bool) else None
    if not match:
        shown = str(text)[:100]
        raise UserErrorException(f"{shown!r} is not a size", hint="write it like 4GB or 512Mi")
    unit = (match.group(2) or "").lower()
    size = float(match.group(1)) * {**_UNITS, **_BINARY_UNITS}[unit]
    if size > 2**62:
        raise UserErrorException(f"{str(text)[:100]!r} is more than any machine has")
    if isinstance(text, int):
        return text
    return int(size)


def format_bytes(count: float) -> str:
    """A size for people, in decimal units."""
    count = min(count, 10.0**27)  # there are integers beyond all floats
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
