"""Which Python a run gets: a path, a virtual environment, a name."""

from __future__ import annotations

import os
import shutil
import sys
from typing import List, Optional

from ..core.errors import UserErrorException
from .session import Session


def choose(session: Session, text: Optional[str], folder: Optional[str], target: str) -> str:
    """What was asked for; else what is active in the shell; else the Python that runs this."""
    if text is None:
        found = active(folder)
        if found is not None and target == "local":  # elsewhere it may not be there
            session.say(f"using the active environment {folder}")
        return found or sys.executable
    if target != "local" and os.path.isabs(text) and not os.path.exists(text):
        return text  # it may well be there
    return find(text)


def find(text: str) -> str:
    """The interpreter that ``--env`` means: a program, an environment's folder, or its name."""
    path = os.path.abspath(os.path.expanduser(text))
    if os.path.isdir(path):
        return _inside(path, text)
    if os.path.isfile(path):
        if not os.access(path, os.X_OK):
            raise UserErrorException(
                f"{text!r} cannot be executed", hint="--env names an interpreter or an environment"
            )
        return path
    if os.sep not in text:
        found = shutil.which(text) or _named(text)
        if found is not None:
            return found
    raise UserErrorException(
        f"there is no environment {text!r}",
        hint="--env takes an interpreter, the folder of a virtual environment, or its name",
    )


def active(folder: Optional[str]) -> Optional[str]:
    """The interpreter of the environment that is active in the shell, if it is not ours."""
    if not folder or os.path.realpath(folder) == os.path.realpath(sys.prefix):
        return None
    path = os.path.join(os.path.abspath(folder), "bin", "python")
    return path if os.access(path, os.X_OK) else None


def with_python(command: str, interpreter: str) -> str:
    """The command with ``python`` and the programs beside it meaning those of the environment."""
    import shlex

    return f'export PATH={shlex.quote(os.path.dirname(interpreter))}:"$PATH"; {command}'


def _inside(folder: str, text: str) -> str:
    for name in ("python", "python3"):
        path = os.path.join(folder, "bin", name)
        if os.access(path, os.X_OK):
            return path
    raise UserErrorException(
        f"{text!r} is a folder without bin/python",
        hint="make an environment there with: python3 -m venv " + text,
    )


def _named(name: str) -> Optional[str]:
    for folder in [*_conda_folders(), os.path.expanduser("~/.virtualenvs/" + name)]:
        path = os.path.join(folder, "bin", "python")
        if os.path.basename(folder) == name and os.access(path, os.X_OK):
            return path
    return None


def _conda_folders() -> List[str]:
    """Conda writes down every environment that it makes."""
    try:
        with open(os.path.expanduser("~/.conda/environments.txt"), encoding="utf-8") as file:
            return file.read().split("\n")
    except (OSError, UnicodeDecodeError):
        return []
