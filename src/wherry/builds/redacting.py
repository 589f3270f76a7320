"""Passwords and tokens in addresses, which nobody else should read."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Callable, Dict, Match

_LOGIN = re.compile(r"://[^/@\s\"]*@")
_TOKEN = re.compile(r"(://[^/\s\"]+)/t/[^/\s\"]+")  # as conda's servers take them
_PAIR = re.compile(r"([?&])([^=&?\s\"'#]+)=([^&\s\"'#]+)")
_SECRET = re.compile(r"sig|token|password|secret|key|credential", re.IGNORECASE)


def without_secrets(text: str) -> str:
    if "://" not in text:
        return text
    return _PAIR.sub(_pair, _TOKEN.sub(r"\1", _LOGIN.sub("://", text)))


def _pair(found: Match[str]) -> str:
    start, name, value = found.groups()
    return f"{start}{name}={'***' if _SECRET.search(name) else value}"


def lock_without_secrets(lock: Dict[str, Any]) -> Dict[str, Any]:
    """As it may be kept, where everyone who may see the run may read it."""
    return {name: _clean(value) for name, value in lock.items()}


def scrub(prefix: str, shown: Callable[[str], str]) -> None:
    """Each package that came from an address has it on record, as it was asked for.

    ``shown`` tells of a wheel where it is kept, not where it lay.
    """
    pattern = "lib/python*/site-packages/*.dist-info/direct_url.json"
    for path in glob.glob(os.path.join(glob.escape(prefix), pattern)):
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        kept = shown(without_secrets(text))
        if kept != text:
            os.unlink(path)  # it may be linked to from elsewhere
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(kept)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, dict):
        return {name: _clean(each) for name, each in value.items()}
    return value
