"""Which folder travels with a script, and what the experiment is called if nobody says."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

from ..core.errors import UserErrorException


class Source(NamedTuple):
    """The folder that is captured, the script as a path in it, and what the user should know."""

    directory: str
    script: Optional[str]
    notice: str = ""


def source_of(script: Optional[str], chosen: Optional[str]) -> Source:
    """The folder that was chosen; else the current one if the script lies in it; else its own."""
    here = os.getcwd()
    if chosen is not None:
        return Source(chosen, script and _script_in(chosen, script))
    if script is None:
        return Source(_not_everything(here, "the command"), None)
    path = os.path.abspath(script)
    if not os.path.isfile(path):
        raise _missing(script, here)
    _check_kind(script)
    _check_readable(path)
    if not _below(path, here):
        folder = _not_everything(os.path.dirname(path), script)
        return Source(folder, os.path.basename(path))
    if not _holds_everything(here):
        return Source(here, os.path.relpath(path, here))
    folder = _not_everything(os.path.dirname(path), script)
    return Source(
        folder,
        os.path.basename(path),
        f"taking {folder} as the source folder, not all of {here}; --source names another",
    )


def experiment_of(directory: str) -> str:
    """The folder's name, as far as it can be a name."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", os.path.basename(os.path.realpath(directory)))
    return name.strip("-._")[:100] or "default"


def _check_kind(script: str) -> None:
    """A script is given to Python; what is plainly something else is refused before it fails."""
    remedy = {
        ".sh": f'wherry run --command "sh {script}"',
        ".R": f'wherry run --command "Rscript {script}"',
        ".ipynb": f"save it as a script: jupyter nbconvert --to script {script}",
        ".yml": f"wherry job create -f {script} --stream",
        ".yaml": f"wherry job create -f {script} --stream",
    }.get(os.path.splitext(script)[1])
    if remedy:
        raise UserErrorException(f"{script!r} is not a Python script", hint=remedy)


def _check_readable(path: str) -> None:
    if not os.access(path, os.R_OK):
        raise UserErrorException(
            f"the script {path} cannot be read: permission denied", hint=f"chmod u+r {path}"
        )


def _script_in(directory: str, script: str) -> str:
    """As seen from the folder or, failing that, from here."""
    _check_kind(script)
    if os.path.isfile(os.path.join(directory, script)):
        return script
    path = os.path.abspath(script)
    if not os.path.isfile(path):
        raise _missing(script, directory)
    _check_readable(path)
    return path


def _holds_everything(folder: str) -> bool:
    real = os.path.realpath(folder)
    return real in (os.path.realpath(os.path.expanduser("~")), os.path.realpath(os.sep))


def _not_everything(folder: str, what: str) -> str:
    if not _holds_everything(folder):
        return folder
    raise UserErrorException(
        f"{what} would take all of {folder} along",
        hint="put the script into a folder of its own, or say so with --source " + folder,
    )


def _below(path: str, folder: str) -> bool:
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return os.path.commonpath([real, os.path.realpath(folder)]) == os.path.realpath(folder)


def _missing(script: str, folder: str) -> UserErrorException:
    from ..core.nearest import suggest

    if os.path.isdir(os.path.join(folder, script)):
        return UserErrorException(
            f"{script!r} is a folder, not a script",
            hint="name the script in it; --source names a folder",
        )
    near = os.path.dirname(os.path.join(folder, script))
    there = os.listdir(near) if os.path.isdir(near) else []
    scripts = [name for name in there if name.endswith((".py", ".sh", ".R"))]
    return UserErrorException(
        f"there is no script {script!r} in {folder}{suggest(os.path.basename(script), scripts)}",
        hint="name it by its path from there; --source names another folder",
    )
