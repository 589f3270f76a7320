"""One line of what must be installed: a requirement of conda or of pip. Pure."""

from __future__ import annotations

import re
from typing import Iterable, List, NamedTuple, Optional

from .wheels import SCHEME, is_misspelt

# Text, compiled by those who use it: others load this module, too.
_CONDA = r"(?a:(?:[\w.+:/-]+::)?(?P<name>[A-Za-z0-9_][\w.+-]*)\s*(?:$|[=<>!~\s*\[].*))"
_PIP = (
    r"(?a:(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w\s.,-]*\])?\s*"
    r"(?P<rest>$|[;(\s].*|@.*|(?:===|~=|==|!=|<=|>=|<|>).*))"
)
_ONE_EQUALS = r"(?a:([\w.\[\],-]+)\s*=\s*([\w.*+-]+)(?:=[\w.*+-]+)?\s*)"


class Problem(NamedTuple):
    """Why a line is no requirement, and what to write instead."""

    sentence: str
    hint: str


def is_option(line: str) -> bool:
    """``--extra-index-url ...`` and such: said to pip, not a package."""
    return line.startswith("-")


def is_place(line: str) -> bool:
    """A path or an address of a package."""
    return "://" in line or line.startswith((".", "/", "~", "file:")) or line.endswith(".whl")


def conda_problem(line: object) -> Optional[Problem]:
    problem = _not_a_line(line)
    if problem is not None or not isinstance(line, str):
        return problem
    if is_option(line):
        return Problem(
            f"{line!r} is an option of pip among the conda packages",
            "write it below '- pip:'",
        )
    if not re.fullmatch(_CONDA, line):
        return Problem(f"{line!r} is no conda package", "write it like numpy or numpy=1.26")
    return None


def pip_problem(line: object) -> Optional[Problem]:
    problem = _not_a_line(line)
    if problem is not None or not isinstance(line, str):
        return problem
    if SCHEME in line and is_misspelt(line):
        return Problem(
            f"{line!r} has an address under which no workspace keeps a wheel",
            "write it as Environment.add_private_pip_wheel gave it",
        )
    if is_option(line) or is_place(line):
        return None
    found = re.fullmatch(_PIP, line)
    if found and (found.group("rest") or "").lstrip()[:1] in ("", ";", "@", "(", *"=~!<>-"):
        return None
    pinned = re.fullmatch(_ONE_EQUALS, line)
    if pinned:
        hint = f"pip pins with two equals signs: {pinned.group(1)}=={pinned.group(2)}"
        return Problem(f"{line!r} is no pip requirement", hint)
    return Problem(f"{line!r} is no pip requirement", "write it like pandas or pandas>=2,<3")


def conda_name(line: str) -> str:
    """The package that a line of conda means, in small letters."""
    found = re.fullmatch(_CONDA, line.strip())
    return found.group("name").lower() if found else line.strip().lower()


def pip_name(line: str) -> str:
    """The package that a line of pip means, as PEP 503 writes it."""
    line = line.strip()
    found = None if is_option(line) or is_place(line) else re.fullmatch(_PIP, line)
    return re.sub(r"[-_.]+", "-", found.group("name")).lower() if found else line


def pip_rest(line: str) -> str:
    """What follows the package's name: extras, versions, a marker."""
    line = line.strip()
    found = None if is_option(line) or is_place(line) else re.fullmatch(_PIP, line)
    return line[len(found.group("name")) :].strip() if found else ""


def sorted_pip(lines: Iterable[str]) -> List[str]:
    """Options stay in their order, which counts; packages have none."""
    tidy = [" ".join(line.split()) for line in lines]
    options = [line for line in tidy if is_option(line)]
    return options + sorted({line for line in tidy if not is_option(line)})


def _not_a_line(line: object) -> Optional[Problem]:
    if not isinstance(line, str):
        return Problem(f"{line!r} is not text", "write each package as a line like numpy=1.26")
    if not line.strip() or re.search(r"[\r\n]", line):
        return Problem(f"{line!r} is no requirement", "write each package on a line of its own")
    return None
