"""Wheels that a workspace keeps: what they are called, and how environments name them. Pure.

An address holds the wheel's digest and file name, and nothing of the server: it means the same
content for ever, wherever the server has moved to.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, NoReturn, Optional, Set

from .errors import UserErrorException

SCHEME = "wherry://"
_LONGEST = 255
# Text, compiled by those who use it: others load this module, too.
_NAME = (
    r"(?a:[A-Za-z0-9](?:[\w.]*[A-Za-z0-9])?-v?\d[\w.!+]*(?:-\d[\w.]*)?-[\w.]+-[\w.]+-[\w.]+\.whl)"
)
_DIGEST = r"[0-9a-f]{64}"
_ADDRESS = rf"{SCHEME}wheels/({_DIGEST})/({_NAME})"


class Wheel(NamedTuple):
    """A wheel that an environment asks for."""

    digest: str
    name: str

    @property
    def address(self) -> str:
        return f"{SCHEME}wheels/{self.digest}/{self.name}"


def check_name(name: Any) -> str:
    """The file name of a wheel, which says for which Pythons and machines it is."""
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        _refuse(
            f"{_shown(name)} is not the name of a wheel",
            "a wheel is called name-version-python-abi-platform.whl, as in "
            "mine-1.0-py3-none-any.whl; pip wheel and python -m build name it so",
        )
    if len(name) > _LONGEST:
        _refuse(
            f"the name of a wheel has {len(name)} characters, more than {_LONGEST}", "shorten it"
        )
    return name


def check_digest(digest: Any) -> str:
    if not isinstance(digest, str) or not re.fullmatch(_DIGEST, digest):
        _refuse(f"{_shown(digest)} is not a SHA-256 digest", "write it as 64 small hex digits")
    return digest


def is_misspelt(line: str) -> bool:
    """Whether a requirement has an address of ours that is none."""
    return line.count(SCHEME) != len(re.findall(rf"{_ADDRESS}(?=$|[\s;,#])", line))


def wheels_of(spec: Optional[Mapping[str, Any]]) -> Set[Wheel]:
    """Those that an environment's specification asks for, in its conda file or in its lock."""
    python = (spec or {}).get("python") or {}
    texts = [
        line
        for each in (python.get("conda") or {}).get("dependencies") or []
        if isinstance(each, Mapping)
        for line in each.get("pip") or []
    ]
    texts.append((python.get("lock") or {}).get("pylock"))
    return {
        Wheel(*found)
        for text in texts
        if isinstance(text, str) and SCHEME in text
        for found in re.findall(_ADDRESS, text)
    }


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _refuse(message: str, hint: str) -> NoReturn:
    raise UserErrorException(message, hint=hint)
