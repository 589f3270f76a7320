"""Small files that Wherry keeps in a home."""

from __future__ import annotations

import os


def write(path: str, text: str) -> None:
    """Whole or not at all, and not where it says so already: in a home whose disk is full, that
    lets the one in who can make room.
    """
    if _read(path) == text:
        return
    partial = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(partial, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, path)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""
