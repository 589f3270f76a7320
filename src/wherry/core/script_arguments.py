"""What a script was called with, by name."""

from __future__ import annotations

from typing import Any, Dict, Iterable


def by_name(arguments: Iterable[Any]) -> Dict[str, str]:
    """Of ``--lr 0.1``, ``--lr=0.1`` and ``--fast``; others by their place.

    >>> by_name(["--lr", 0.1, "--fast", "--depth=3", "a.csv"])
    {'--lr': '0.1', '--fast': 'yes', '--depth': '3', 'argument 1': 'a.csv'}
    """
    found: Dict[str, str] = {}
    words = [str(word) for word in arguments]
    place = 0
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-") or _is_number(word):
            place += 1
            found[f"argument {place}"] = word
        elif equals:
            found[name] = value
        elif words and (not words[0].startswith("-") or _is_number(words[0])):
            found[name] = words.pop(0)
        else:
            found[name] = "yes"
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
