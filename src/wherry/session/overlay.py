"""A virtual environment in the home that lies over one in the node's cache.

What people install goes into it and stays, whatever becomes of the one below: that one is shared,
never written to, and may be made again in another place or of another version.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from glob import escape, glob
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import small_file

_BELOW = "_wherry_below.pth"
_NOTE = "wherry.json"
_PATIENCE_S = 120
_ASK = (
    "import json, sys, sysconfig as s; print(json.dumps({'version': list(sys.version_info[:3]),"
    " 'python': getattr(sys, '_base_executable', None) or sys.executable, 'prefix': sys.prefix,"
    " 'below': sorted({s.get_path('purelib'), s.get_path('platlib')})}))"
)
# Not with -m: a file in the current folder would be imported in the place of a module of Python's.
_SHIM = """\
#!/bin/sh
exec "${{0%/*}}/python" -c 'import sys; sys.path[:] = sys.path[sys.path[0] == "":]; import runpy
runpy.run_module("{module}", run_name="__main__", alter_sys=True)' "$@"
"""


class OverlayError(Exception):
    """One sentence: why there is none."""


class Below(NamedTuple):
    """What an interpreter says of itself."""

    version: List[int]
    python: str
    prefix: str
    below: List[str]


class Overlay:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.python = os.path.join(folder, "bin", "python")
        self._note = os.path.join(folder, _NOTE)

    def lay(self, interpreter: str, say: Callable[[str], None]) -> Below:
        """Over that interpreter's environment; repaired if it lay over another."""
        below = ask(interpreter)
        if self._noted() != below._asdict() or ask_or_none(self.python) is None:
            self._make(interpreter)
            self._mention_others(below, say)
        try:
            self._point(below)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from None
        return below

    def add_command(self, name: str, module: str) -> None:
        """A program that runs a module here; what people installed under that name stays."""
        path = os.path.join(self.folder, "bin", name)
        if not os.path.lexists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(_SHIM.format(module=module))
            os.chmod(path, 0o755)  # noqa: S103

    def _noted(self) -> Optional[Dict[str, Any]]:
        try:
            with open(self._note, encoding="utf-8") as file:
                noted = json.load(file)
        except (OSError, ValueError):
            return None
        return noted if isinstance(noted, dict) else None

    def _make(self, interpreter: str) -> None:
        """Links to a Python that is gone are no hindrance; packages stay where they are."""
        for link in glob(os.path.join(escape(self.folder), "bin", "python*")):
            if os.path.islink(link):
                os.unlink(link)
        words = [interpreter, "-I", "-m", "venv", "--without-pip", self.folder]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise self._error(str(error)) from None
        if done.returncode != 0:
            said = done.stdout.decode("utf-8", "replace").strip()
            raise self._error(said[-500:] or f"exit code {done.returncode}")

    def _point(self, below: Below) -> None:
        minor = ".".join(map(str, below.version[:2]))
        packages = os.path.join(self.folder, "lib", f"python{minor}", "site-packages")
        calls = "".join(f"site.addsitedir({path!r}); " for path in below.below)
        small_file.write(os.path.join(packages, _BELOW), f"import site; {calls}\n")
        small_file.write(self._note, json.dumps(below._asdict()))

    def _mention_others(self, below: Below, say: Callable[[str], None]) -> None:
        minor = ".".join(map(str, below.version[:2]))
        for packages in sorted(glob(os.path.join(escape(self.folder), "lib/python*"))):
            other = os.path.basename(packages)[len("python") :]
            if other != minor and glob(os.path.join(escape(packages), "site-packages/*.dist-info")):
                say(
                    f"packages that were installed for Python {other} are not seen by Python"
                    f" {minor}: install them again with pip (the old ones are in {packages})"
                )

    def _error(self, reason: str) -> OverlayError:
        return OverlayError(f"a virtual environment cannot be made in {self.folder}: {reason}")


def ask(interpreter: str) -> Below:
    found = ask_or_none(interpreter)
    if found is None:
        raise OverlayError(f"the interpreter {interpreter} does not answer")
    return found


def ask_or_none(interpreter: str) -> Optional[Below]:
    with suppress(OSError, ValueError, subprocess.SubprocessError, TypeError):
        done = subprocess.run(
            [interpreter, "-I", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=True,
        )
        return Below(**json.loads(done.stdout))
    return None
