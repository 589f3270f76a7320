"""Text that any database and any JSON reader can hold, and that anyone may read."""

from __future__ import annotations

import re

_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str, limit: int = 0) -> str:
    """Without NULs and lone surrogates, at most ``limit`` characters (0: any length)."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text[: limit - 1] + "…" if limit and len(text) > limit else text


def harmless(text: str) -> str:
    """What a program has printed, without what would do something to a terminal.

    >>> harmless("\\x1b[31mred\\x1b[0m\\x1b]0;title\\x07\\r\\n\\tnext")
    'red\\n\\tnext'
    """
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def shown(value: object) -> str:
    """As it was written, as far as anyone would read it."""
    return repr(value) if len(repr(value)) < 100 else f"{repr(value)[:100]}..."


def without_password(address: str) -> str:
    """The address as it may be shown: a password in it becomes ``***``.

    >>> without_password("postgresql://me:secret@host/db?password=secret&x=1")
    'postgresql://me:***@host/db?password=***&x=1'
    """
    scheme, found, rest = address.partition("://")
    if not found:
        return address
    start, question, query = rest.partition("?")
    who, at, where = start.rpartition("@")
    user, colon, _ = who.partition(":")
    shown = f"{user}:***" if colon else who
    return scheme + found + shown + at + where + question + _without_password(query)


def _without_password(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&")]
    return "&".join(
        f"{name}=***" if "password" in name.lower() else name + equals + value
        for name, equals, value in pairs
    )
