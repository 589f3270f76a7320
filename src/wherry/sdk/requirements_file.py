"""A file of pip requirements as people write them: comments, continued lines, ``-r`` others."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Tuple

from ..core.errors import UserErrorException
from ..core.requirements import pip_problem
from .yaml_text import read_file

_COMMENT = r"(^|\s)#.*$"
_OTHER = r"(-r|--requirement)(\s+|=)(?P<path>.+)|-r(?P<glued>\S+)"
_CONSTRAINTS = r"(-c|--constraint)(\s|=|\S).*"
_MAX_FILES = 50


def load(path: str) -> Dict[str, int]:
    """What the file asks for, each with its line.

    What it takes from another file stands where it names that one.
    """
    found: Dict[str, int] = {}
    for number, line in _every(path, []):
        found.setdefault(line, number)
    return found


def _every(path: str, above: List[str]) -> Iterator[Tuple[int, str]]:
    for number, line in _logical(read_file(path, "a file of pip requirements")):
        other = re.fullmatch(_OTHER, line)
        if other:
            below = _beside(path, (other.group("path") or other.group("glued")).strip())
            if below in above or len(above) > _MAX_FILES:
                raise UserErrorException(
                    f"{path}, line {number}: {below} takes itself in", hint="take the line out"
                )
            yield from ((number, each) for _, each in _every(below, [*above, path]))
            continue
        _check(path, number, line)
        yield number, line


def _logical(text: str) -> Iterator[Tuple[int, str]]:
    """Lines without comments, continued ones joined, with the number of their first."""
    begun, waiting = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        part = re.sub(_COMMENT, "", raw).rstrip()
        begun = begun or number
        if part.endswith("\\"):
            waiting += part[:-1].rstrip() + " "
            continue
        line = " ".join((waiting + part.strip()).split())
        if line:
            yield begun, line
        begun, waiting = 0, ""
    if waiting.strip():
        yield begun, " ".join(waiting.split())


def _beside(path: str, other: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(path), other))


def _check(path: str, number: int, line: str) -> None:
    where = f"{path}, line {number}"
    if re.fullmatch(_CONSTRAINTS, line):
        raise UserErrorException(
            f"{where}: {line!r} names constraints, which do not travel with an environment",
            hint="write the pins into the file itself",
        )
    problem = pip_problem(line)
    if problem is not None:
        raise UserErrorException(f"{where}: {problem.sentence}", hint=problem.hint)
