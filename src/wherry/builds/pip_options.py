"""pip's options, said to uv."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

# By variables: whoever lists this machine's processes sees their arguments, passwords and all.
_VARIABLES = {
    "-i": ("UV_DEFAULT_INDEX", " "),
    "--index-url": ("UV_DEFAULT_INDEX", " "),
    "--extra-index-url": ("UV_INDEX", " "),
    "-f": ("UV_FIND_LINKS", ","),
    "--find-links": ("UV_FIND_LINKS", ","),
}
_WORDS = {
    "--no-binary": "--no-binary",
    "--only-binary": "--only-binary",
    "--trusted-host": "--allow-insecure-host",
}


class Said(NamedTuple):
    """What means nothing to uv is ``unknown``."""

    words: Tuple[str, ...]
    variables: Dict[str, str]
    unknown: Tuple[str, ...]


def for_uv(options: Sequence[str]) -> Said:
    """pip looks at all indexes and takes the best version, so uv is told to."""
    words: List[str] = []
    unknown: List[str] = []
    variables: Dict[str, str] = {}
    rest = iter(options)
    for option in rest:
        if option in _VARIABLES:
            name, between = _VARIABLES[option]
            before = variables[name] + between if name in variables else ""
            variables[name] = before + next(rest, "")
        elif option in _WORDS:
            words += [_WORDS[option], next(rest, "")]
        elif option == "--pre":
            words += ["--prerelease", "allow"]
        elif option == "--no-index":
            words.append(option)
        elif option.startswith("-"):
            unknown.append(option)
    if "UV_INDEX" in variables:
        words += ["--index-strategy", "unsafe-best-match"]
    return Said(tuple(words), variables, tuple(unknown))
