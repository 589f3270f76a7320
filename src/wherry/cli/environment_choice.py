"""The environment that ``--environment`` means: a registered one, or a file that describes one."""

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


def choose(session: Session, text: str) -> Environment:
    """A conda file, pip requirements or a v2 file where it is one, else what the server knows."""
    ending = os.path.splitext(text)[1].lower()
    is_file = ending in (*_YAML, *_PIP) or os.sep in text
    if not is_file:
        return Environment._referred(session.workspace, text)
    if not os.path.isfile(text):
        folder = os.path.dirname(text) or os.curdir
        there = os.listdir(folder) if os.path.isdir(folder) else []
        raise UserErrorException(
            f"there is no file {text!r}{suggest(os.path.basename(text), there)}",
            hint="--environment takes a conda file, pip requirements (.txt), or a name",
        )
    name = os.path.splitext(os.path.basename(text))[0]
    if ending in _PIP:
        return Environment.from_pip_requirements(name, text)
    fields: Any = parse(read_file(text), text)
    if isinstance(fields, dict) and "dependencies" in fields:
        return Environment.from_conda_specification(str(fields.get("name") or name), text)
    return load_environment(text)
