"""Passwords and tokens in addresses, which nobody else should read."""

from __future__ import annotations

import re
from typing import Any, Dict

_LOGIN = re.compile(r"://[^/@\s\"]*@")
_TOKEN = re.compile(r"(://[^/\s\"]+)/t/[^/\s\"]+")  # as conda's servers take them


def without_secrets(text: str) -> str:
    return _TOKEN.sub(r"\1", _LOGIN.sub("://", text))


def lock_without_secrets(lock: Dict[str, Any]) -> Dict[str, Any]:
    """As it may be kept, where everyone who may see the run may read it."""
    return {name: _clean(value) for name, value in lock.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, dict):
        return {name: _clean(each) for name, each in value.items()}
    return value
