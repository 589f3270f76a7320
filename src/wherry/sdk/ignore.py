"""What is left out of a snapshot: git's ignore rules, matched without git, and our defaults.

Patterns are matched by character, where git matches by byte: ``?`` and ``[...]`` stand for one
character of any alphabet.
"""

from __future__ import annotations

import hashlib
import re
from itertools import count
from typing import Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

IGNORE_FILES = (".wherryignore", ".amlignore", ".gitignore")
"""The first of these that a folder has speaks for it; the others in that folder are not read."""

DOWNLOADS = "wherry-downloads"
"""Where a run's files go unless another folder is named: they are not part of the next run."""

LEFT_OUT_NAMES: FrozenSet[str] = frozenset(
    {
        ".DS_Store",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".venv",
        ".wherry",
        "__pycache__",
        "node_modules",
        DOWNLOADS,
    }
)
LEFT_OUT_SUFFIXES: Tuple[str, ...] = (".egg-info", ".pyc")
VENV_MARK = "pyvenv.cfg"
"""A folder that holds this file is a virtual environment, whatever its name."""


class Ignore:
    """The rules that hold in one folder: those of its own ignore file, then those above it.

    A pattern with ``!`` brings back what our defaults leave out if it names it: ``!*/``, as in a
    list of what to keep, does not mean ``.git``. As in git, nothing below a folder that is left out
    can be brought back.
    """

    def __init__(self, text: str = "", folder: str = "", parent: Optional[Ignore] = None) -> None:
        """``folder`` is where ``text`` was found, from the root, ending in ``/`` or empty."""
        self._rules = Rules(text)
        self._cut = len(folder)
        self._parent = parent
        above = parent.fingerprint if parent else repr((sorted(LEFT_OUT_NAMES), LEFT_OUT_SUFFIXES))
        content = "\0".join((above, folder, text)).encode("utf-8", "surrogateescape")
        self.fingerprint: str = hashlib.sha256(content).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ignore) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def below(self, folder: str, text: str) -> Ignore:
        return Ignore(text, folder, self)

    def verdict(self, path: str, name: str, is_dir: bool) -> Optional[bool]:
        """True: left out. False: brought back by ``!``. None: no ignore file says anything."""
        found = self._deciding(path, name, is_dir)
        return None if found is None else not found.negated

    def brings_back(self, path: str, name: str, is_dir: bool) -> bool:
        """Whether an ignore file wants it even though our defaults leave it out."""
        found = self._deciding(path, name, is_dir)
        return found is not None and found.negated and found.names

    def ignores(self, path: str, name: str, is_dir: bool) -> bool:
        found = self._deciding(path, name, is_dir)
        if found is None:
            return left_out_by_default(name)
        return not found.negated or (left_out_by_default(name) and not found.names)

    def _deciding(self, path: str, name: str, is_dir: bool) -> Optional[_Pattern]:
        level: Optional[Ignore] = self
        while level is not None:
            found = level._rules.deciding(path[level._cut :], name, is_dir)
            if found is not None:
                return found
            level = level._parent
        return None


def left_out_by_default(name: str) -> bool:
    return name in LEFT_OUT_NAMES or name.endswith(LEFT_OUT_SUFFIXES)


class Rules:
    """One ignore file. The last pattern that matches decides.

    Nearly every name matches nothing, so that is what is found out fast: plain names by a look-up,
    plain endings at once, all other patterns by one regular expression.
    """

    def __init__(self, text: str) -> None:
        patterns = _parse(text)
        self._last_first = patterns[::-1]
        plain = [(p, p.plain) for p in patterns if p.plain is not None]
        self._endings = tuple(text for p, text in plain if p.is_ending)
        self._names = frozenset(text for p, text in plain if p.by_name and not p.is_ending)
        self._paths = frozenset(text for p, text in plain if not p.by_name)
        self._by_name = _any_of([p for p in patterns if p.plain is None and p.by_name])
        self._by_path = _any_of([p for p in patterns if p.plain is None and not p.by_name])

    def verdict(self, path: str, name: str, is_dir: bool) -> Optional[bool]:
        found = self.deciding(path, name, is_dir)
        return None if found is None else not found.negated

    def deciding(self, path: str, name: str, is_dir: bool) -> Optional[_Pattern]:
        """``path`` is counted from the folder of the ignore file."""
        if not (
            name in self._names
            or name.endswith(self._endings)
            or path in self._paths
            or (self._by_name is not None and self._by_name(name))
            or (self._by_path is not None and self._by_path(path))
        ):
            return None
        for pattern in self._last_first:
            if (is_dir or not pattern.dir_only) and pattern.matches(path, name):
                return pattern
        return None


class _Pattern(NamedTuple):
    negated: bool
    names: bool
    dir_only: bool
    by_name: bool
    is_ending: bool
    plain: Optional[str]
    regex: str

    def matches(self, path: str, name: str) -> bool:
        text = name if self.by_name else path
        if self.plain is None:
            return re.fullmatch(self.regex, text, re.DOTALL) is not None
        return text.endswith(self.plain) if self.is_ending else text == self.plain


def _any_of(patterns: List[_Pattern]) -> Optional[Callable[[str], object]]:
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{p.regex})" for p in patterns), re.DOTALL).fullmatch


def _parse(text: str) -> List[_Pattern]:
    lines = text[1:].split("\n") if text.startswith("\ufeff") else text.split("\n")
    found = [_parse_line(line) for line in lines if line and line[0] != "#"]
    return [pattern for pattern in found if pattern is not None]


def _parse_line(line: str) -> Optional[_Pattern]:
    if line.endswith("\r"):
        line = line[:-1]
    glob = _without_trailing_spaces(line.partition("\0")[0])
    negated = glob.startswith("!")
    if negated:
        glob = glob[1:]
    dir_only = glob.endswith("/")
    if dir_only:
        glob = glob[:-1]
    by_name = "/" not in glob
    if glob.startswith("/"):
        glob = glob[1:]
    if not glob:
        return None
    literal = _SPECIAL.split(glob, maxsplit=1)[0]
    names = glob.strip("*?/.") != ""
    if literal == glob:
        return _Pattern(negated, names, dir_only, by_name, False, glob, "")
    if by_name and glob[0] == "*" and not _SPECIAL.search(glob, 1):
        return _Pattern(negated, names, dir_only, by_name, True, glob[1:], "")
    # git compares the literal beginning first and then matches the rest as a pattern of its own,
    # so that "**" counts as a whole part right after the literal: "foo**/bar" finds "foo/x/bar".
    start = 0 if by_name else len(literal)
    regex = _translate(glob[start:], by_name)
    if regex is None:
        return None
    pattern = re.escape(glob[:start]) + regex
    return _Pattern(negated, names, dir_only, by_name, False, None, pattern)


def _without_trailing_spaces(line: str) -> str:
    kept, index = 0, 0
    while index < len(line):
        if line[index] == "\\":
            index += 1
            if index == len(line):
                return line
            kept = index + 1
        elif line[index] != " ":
            kept = index + 1
        index += 1
    return line[:kept]


def _translate(glob: str, by_name: bool) -> Optional[str]:
    """The pattern as a regular expression; None if git finds it malformed and matches nothing."""
    out: List[str] = []
    index = 0
    while index < len(glob):
        char = glob[index]
        if char == "*":
            piece, index = _translate_stars(glob, index, by_name)
        elif char == "?":
            piece, index = "[^/]", index + 1
        elif char == "[":
            found = _translate_class(glob, index + 1)
            if found is None:
                return None
            piece, index = found
        elif char == "\\":
            if index + 1 == len(glob):
                return None
            piece, index = re.escape(glob[index + 1]), index + 2
        else:
            piece, index = re.escape(char), index + 1
        out.append(piece)
    return _joined(out)


def _joined(pieces: List[str]) -> str:
    """One expression in which no wildcard is tried again once what follows it was found: two dozen
    of them would take years. The first place is as good as any, for the next wildcard takes the
    rest; only the last one must reach the end.
    """
    chunks: List[Tuple[str, List[str]]] = [("", [])]
    for piece in pieces:
        if piece in (_DEEP, _REST):
            chunks.append((piece, []))
        else:
            chunks[-1][1].append(piece)
    whole = [wild + _chunk(inner, is_last=True) for wild, inner in chunks[-1:]]
    for wild, inner in chunks[-2::-1]:
        chunk = _LAZY[wild] + _chunk(inner, is_last=False)
        whole.append(_first(chunk) if wild else chunk)
    return "".join(whole[::-1])


def _chunk(pieces: List[str], *, is_last: bool) -> str:
    parts: List[List[str]] = [[]]
    for piece in pieces:
        if piece == _STAR:
            parts.append([])
        else:
            parts[-1].append(piece)
    texts = ["".join(part) for part in parts]
    out = texts[:1] + [_first(_LAZY[_STAR] + text) for text in texts[1:]]
    if is_last and len(texts) > 1:
        out[-1] = _STAR + texts[-1]
    return "".join(out)


def _first(regex: str) -> str:
    """The first way to match, for good: what ``(?>...)`` means in newer Pythons."""
    name = f"w{next(_COUNTER)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _translate_stars(glob: str, start: int, by_name: bool) -> Tuple[str, int]:
    end = start
    while end < len(glob) and glob[end] == "*":
        end += 1
    opens = start == 0 or glob[start - 1] == "/"
    closes = end == len(glob) or glob.startswith(("/", "\\/"), end)
    if by_name or end - start == 1 or not (opens and closes):
        return _STAR, end
    if glob.startswith("/", end):
        return _DEEP, end + 1
    return _REST, end


def _translate_class(glob: str, index: int) -> Optional[Tuple[str, int]]:
    negated = glob.startswith(("!", "^"), index)
    index += negated
    members: List[str] = []
    previous = ""
    first = True
    while first or not glob.startswith("]", index):
        first = False
        char = glob[index : index + 1]
        ranged = char == "-" and previous and not glob.startswith("]", index + 1)
        if char == "\\" or ranged:
            index += 1
        if ranged and glob.startswith("\\", index):
            index += 1
        if index >= len(glob):
            return None
        end = _posix_class_end(glob, index) if char == "[" else None
        if ranged:
            if previous <= glob[index]:
                members.append(f"{re.escape(previous)}-{re.escape(glob[index])}")
            previous = ""
        elif end is not None:
            if glob[index + 2 : end - 1] not in _POSIX_CLASSES:
                return None
            members.append(_POSIX_CLASSES[glob[index + 2 : end - 1]])
            previous, index = "", end
        else:
            previous = glob[index]
            members.append(re.escape(previous))
        index += 1
        if index >= len(glob):
            return None
    inside = "".join(members)
    if negated:
        return f"[^/{inside}]", index + 1
    return (f"(?!/)[{inside}]" if inside else "(?!)"), index + 1


def _posix_class_end(glob: str, index: int) -> Optional[int]:
    """Where the ``]`` of ``[:name:]`` is, if the class that begins here is one of those."""
    if not glob.startswith("[:", index):
        return None
    end = glob.find("]", index + 2)
    return end if end > index + 2 and glob[end - 1] == ":" else None


_STAR, _DEEP, _REST = "[^/]*", "(?:.*/)?", ".*"
_LAZY = {"": "", _STAR: "[^/]*?", _DEEP: "(?:.*?/)??", _REST: ".*?"}
_COUNTER = count()
_SPECIAL = re.compile(r"[*?\[\\]")
_POSIX_CLASSES: Dict[str, str] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
