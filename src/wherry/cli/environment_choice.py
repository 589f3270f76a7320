"""The environment that someone names: a registered one, or a file that describes one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..core.errors import UserErrorException
from ..core.nearest import suggest
from ..sdk.environment import Environment
from ..sdk.environment_yaml import load_environment
from ..sdk.yaml_text import parse, read_file
from .session import Session

if TYPE_CHECKING:
    from typing import Any

_YAML = (".yml", ".yaml")
_PIP = (".txt", ".in")
_LOCK = ".json"


def choose(session: Session, text: str) -> Environment:
    """A conda file, pip requirements, a v2 file or a lock, else what the server knows."""
    ending = os.path.splitext(text)[1].lower()
    is_file = ending in (*_YAML, *_PIP, _LOCK) or os.sep in text
    if not is_file:
        return Environment._referred(session.workspace, text)
    if not os.path.isfile(text):
        folder = os.path.dirname(text) or os.curdir
        there = os.listdir(folder) if os.path.isdir(folder) else []
        raise UserErrorException(
            f"there is no file {text!r}{suggest(os.path.basename(text), there)}",
            hint="an environment is a conda file, pip requirements (.txt), a lock (.json),"
            " or a name",
        )
    return _described(text, ending)


def _described(text: str, ending: str) -> Environment:
    name = os.path.splitext(os.path.basename(text))[0]
    if ending in _PIP:
        return Environment.from_pip_requirements(name, text)
    if ending == _LOCK:
        return Environment.from_lock(name, text)
    fields: Any = parse(read_file(text), text)
    if isinstance(fields, dict) and "dependencies" in fields:
        return Environment.from_conda_specification(str(fields.get("name") or name), text)
    return load_environment(text)
