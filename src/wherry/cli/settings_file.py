"""The settings file: one line changed, the others left as they are."""

from __future__ import annotations

import os
from typing import List, Optional

from ..core.errors import UserErrorException
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
    try:
        _write(path, text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserErrorException(
            f"the settings file {path} cannot be written: {reason}",
            hint=f"make room for it and the right to write there, or set WHERRY_{name.upper()}",
        ) from None
    return path


def is_written(name: str) -> bool:
    lines = _read(os.path.join(home(), FILE_NAME))
    return len(_without(lines, name)) < len(lines)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    part = f"{path}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(part, path)


def _read(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def _without(lines: List[str], name: str) -> List[str]:
    return [line for line in lines if line.replace(":", "=").partition("=")[0].strip() != name]
