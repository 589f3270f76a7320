"""pip's options, said to uv."""

from __future__ import annotations

import re
from typing import List, Sequence

_SAME = {
    "-i": "--index-url",
    "--index-url": "--index-url",
    "--extra-index-url": "--extra-index-url",
    "-f": "--find-links",
    "--find-links": "--find-links",
    "--no-binary": "--no-binary",
    "--only-binary": "--only-binary",
    "--trusted-host": "--allow-insecure-host",
}


def for_uv(options: Sequence[str], unknown: List[str]) -> List[str]:
    """Those that change what is installed; the others are added to ``unknown``.

    pip looks at all indexes and takes the best version, so uv is told to.
    """
    said: List[str] = []
    words = iter(options)
    for word in words:
        if word in _SAME:
            said += [_SAME[word], next(words, "")]
        elif word == "--pre":
            said += ["--prerelease", "allow"]
        elif word == "--no-index":
            said.append(word)
        elif word.startswith("-"):
            unknown.append(word)
    if "--extra-index-url" in said:
        said += ["--index-strategy", "unsafe-best-match"]
    return said


def without_secrets(text: str) -> str:
    """As a lock may keep it, where everyone who may see the run may read it."""
    return re.sub(r"://[^/@\s\"]*@", "://", text)
