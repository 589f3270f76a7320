"""The settings file: one line changed, the others left as they are."""

from __future__ import annotations

import os
from typing import List, Optional

from ..core.settings import FILE_NAME, Settings, resolve
from ..sdk.settings import home


def path_of(settings: Settings) -> str:
    return os.path.join(settings.home, FILE_NAME)


def change(name: str, value: Optional[str]) -> str:
    """Set it or, with None, take it out; the path of the file.

    What would not be understood is not written. A file that cannot be understood can be changed.
    """
    path = os.path.join(home(), FILE_NAME)
    lines = _without(_read(path), name)
    if value is not None:
        lines.append(f"{name} = {value}")
    text = "\n".join(lines) + "\n" if lines else ""
    if value is not None:
        resolve({name: value}, {})
        resolve({}, {}, text)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    part = f"{path}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(part, path)
    return path


def _read(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def _without(lines: List[str], name: str) -> List[str]:
    return [line for line in lines if line.replace(":", "=").partition("=")[0].strip() != name]
