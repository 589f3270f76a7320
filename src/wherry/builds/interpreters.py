"""Pythons: those on the machine, those uv can fetch, and the nearest newer one."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from wherry.builds.error import BuildError

Version = Tuple[int, ...]
_PIN = re.compile(r"^(?P<sign>[=<>!~]=?|==)?\s*(?P<version>\d+(\.\d+)*)(?P<star>\.?\*)?$")
_ASK = (
    "import sys; print('%d.%d.%d' % sys.version_info[:3], sys.prefix, sys.base_prefix, sep='\\n')"
)


@dataclass(frozen=True)
class Interpreter:
    path: str
    version: Version

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


class Pin:
    """``=3.8``, ``3.8.*``, ``>=3.8,<3.10``; an empty one takes anything."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        # A conda build string, "3.8.5=h7579374_1", says nothing about any other Python.
        words = re.sub(r"^(=?=?\s*[\d.*]+)=\S*$", r"\1", self.text)
        self._parts = [self._part(word.strip()) for word in words.split(",") if word.strip()]

    @staticmethod
    def _part(word: str) -> Tuple[str, Version]:
        found = _PIN.match(word)
        if not found:
            raise BuildError(f"{word!r} is not a version of Python: write python=3.11")
        return found.group("sign") or "=", tuple(map(int, found.group("version").split(".")))

    def accepts(self, version: Version) -> bool:
        return all(_holds(sign, asked, version) for sign, asked in self._parts)

    def reaches(self, oldest: Version) -> bool:
        """Whether that minor version or a newer one would do."""
        major, minor = oldest
        return any(_possible(self, (major, each)) for each in range(minor, 100))

    @property
    def lowest(self) -> Version:
        floors = [asked for sign, asked in self._parts if sign not in ("<", "<=", "!=")]
        return max(floors, default=(3,))

    @property
    def request(self) -> str:
        """In uv's words."""
        exact = [asked for sign, asked in self._parts if sign in ("=", "==")]
        if exact:
            return ".".join(map(str, exact[0]))
        return self.text.replace(" ", "")


def _holds(sign: str, asked: Version, version: Version) -> bool:
    same = version[: len(asked)] == asked
    if sign in ("=", "=="):
        return same
    if sign == "!=":
        return not same
    if sign == "~=":
        return version >= asked and version[: len(asked) - 1] == asked[:-1]
    if sign == ">":
        return version > asked and not same
    if sign == "<":
        return version < asked
    return version >= asked if sign == ">=" else version <= asked or same


Fetch = Callable[[str], Optional[str]]


def choose(pin: Pin, strict: bool, fetch: Fetch, folders: List[str]) -> Tuple[Interpreter, str]:
    """The interpreter and a notice (empty when it is what was asked for).

    ``fetch`` gets a version by uv, or says why not; ``folders`` hold those it fetched.
    """
    if not pin.text:
        own = _inspect(getattr(sys, "_base_executable", None) or sys.executable)
        if own is not None:
            return own, ""
    found = _best(pin, folders)
    if found is not None:
        return found, ""
    reason = fetch(pin.request)
    found = _best(pin, folders) if reason is None else None
    if found is not None:
        return found, ""
    said = f"Python {pin.text.lstrip('= ')} is not on this machine"
    said += f" and uv could not fetch it ({reason})" if reason else ""
    newer = _nearest_newer(pin, folders)
    if strict or newer is None:
        why = "the specification is strict" if strict else "there is no newer one either"
        raise BuildError(f"{said}, and {why}", hint=f"installed: {_list(folders)}")
    return newer, f"{said}: Python {newer} is used instead"


def _best(pin: Pin, folders: List[str]) -> Optional[Interpreter]:
    fitting = [each for each in installed(folders, pin) if pin.accepts(each.version)]
    return max(fitting, key=lambda each: each.version, default=None)


def _nearest_newer(pin: Pin, folders: List[str]) -> Optional[Interpreter]:
    newer = [each for each in installed(folders) if each.version > pin.lowest]
    return min(newer, key=lambda each: (each.version[:2], [-n for n in each.version]), default=None)


def _list(folders: List[str]) -> str:
    return ", ".join(sorted({str(each) for each in installed(folders)})) or "none"


def installed(folders: List[str], pin: Optional[Pin] = None) -> List[Interpreter]:
    """Those that answer, asked only where the path does not already rule them out."""
    found: Dict[str, Interpreter] = {}
    for path, hint in _paths(folders):
        if pin is not None and hint and not _possible(pin, hint):
            continue
        real = os.path.realpath(path)
        if real not in found:
            answer = _inspect(path)
            if answer is not None:
                found[real] = answer
    return list(found.values())


def _possible(pin: Pin, hint: Version) -> bool:
    return any(pin.accepts((*hint, patch)[:3]) for patch in range(40))


def _paths(folders: List[str]) -> Iterator[Tuple[str, Version]]:
    """Candidates, and as much of their version as their path tells."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for root in [*folders, os.path.join(pyenv, "versions"), "/opt/python"]:
        for path in sorted(glob.glob(os.path.join(glob.escape(root), "*", "bin", "python3"))):
            yield path, _hint(path.split(os.sep)[-3])
    search = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in [*search, "/usr/local/bin", "/usr/bin"]:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "python3*"))):
            name = os.path.basename(path)
            if re.match(r"^python3(\.\d+)?$", name) and os.sep + "shims" not in folder:
                yield path, _hint(name) if "." in name else ()
    yield sys.executable, tuple(sys.version_info[:2])


def _hint(name: str) -> Version:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", name)
    return tuple(int(each) for each in found.groups() if each) if found else ()


def _inspect(path: str) -> Optional[Interpreter]:
    """Runs it: a path may be a link to nothing. Environments count as what they were made from."""
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        version, prefix, base = done.stdout.splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    numbers = tuple(map(int, version.split(".")))
    if prefix != base:
        path = os.path.realpath(path)
    return Interpreter(path, numbers)
