"""The name that was probably meant."""

from __future__ import annotations

from typing import Iterable, List, Sequence

_LONGEST = 300


def suggest(name: str, known: Iterable[str], most: int = 1) -> str:
    """``; did you mean 'x'?`` where something known is close, else nothing."""
    return did_you_mean(nearest(name, known, most))


def nearest(name: str, known: Iterable[str], most: int = 1) -> List[str]:
    from difflib import get_close_matches  # only those who err pay for it

    return get_close_matches(name[:_LONGEST], list(dict.fromkeys(known)), most)


def listed(names: Sequence[str], most: int = 20) -> str:
    """What there is, as far as anyone would read it."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")


def did_you_mean(names: List[str]) -> str:
    return f"; did you mean {' or '.join(repr(each) for each in names)}?" if names else ""
