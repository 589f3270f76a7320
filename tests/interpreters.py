"""Other Pythons on this machine, for tests of what must run on them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def find_python(version: str) -> str:
    """The path of a working interpreter; skips the test by name where there is none."""
    candidates = [shutil.which(f"python{version}")]
    managed = Path.home() / ".pyenv" / "versions"
    candidates += [str(path) for path in managed.glob(f"{version}.*/bin/python")]
    for candidate in candidates:
        if candidate and _works(candidate):
            return candidate
    pytest.skip(f"python{version} is not installed")


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0
