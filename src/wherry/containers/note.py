"""The file in an attempt's folder that says that it has containers, and with which engine.

It is written before the container is made and erased after it was removed, so that whoever comes
upon the folder can end what is left.
"""

from __future__ import annotations

import json
import os
from typing import Optional

from .container import Container
from .engine import Engine

NAME = "container"


def write(folder: str, container: Container) -> None:
    text = json.dumps({"engine": container.engine.address, "attempt": container.attempt_id})
    handle = os.open(_path(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def read(folder: str) -> Optional[Container]:
    """None where there is no such file, or none that can be read."""
    try:
        with open(_path(folder), encoding="utf-8") as file:
            found = json.loads(file.read())
        return Container(Engine(str(found["engine"])), str(found["attempt"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def erase(folder: str) -> None:
    try:
        os.unlink(_path(folder))
    except FileNotFoundError:
        return


def _path(folder: str) -> str:
    return f"{folder}/{NAME}"
