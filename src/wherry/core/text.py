"""Text that any database and any JSON reader can hold."""

from __future__ import annotations


def clean(text: str, limit: int = 0) -> str:
    """Without NULs and lone surrogates, at most ``limit`` characters (0: any length)."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text[: limit - 1] + "…" if limit and len(text) > limit else text
