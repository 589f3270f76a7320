"""A wheel of one's own, given to a workspace to keep for its environments."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from typing import Any, Dict, Iterator

import wherry  # the lazy surface: see run.py

from ..core.errors import UserErrorException
from ..core.wheels import check_name
from .client import quote

_BLOCK = 1 << 20
_EXAMPLE = "mine-1.0-py3-none-any.whl"


def add(workspace: wherry.Workspace, file_path: Any, exist_ok: bool) -> Dict[str, Any]:
    """The wheel as the workspace keeps it."""
    path = os.path.expanduser(_path(file_path))
    wheel = _WheelFile(path)
    client = workspace._client
    where = f"/workspaces/{quote(workspace.name)}/wheels"
    fields = {
        "name": os.path.basename(path),
        "digest": wheel.digest,
        "size": wheel.size,
        "exist_ok": bool(exist_ok),
    }
    kept: Dict[str, Any] = client.post(where, json=fields, retry=True)
    if kept["missing"]:
        client.post("/blobs", data=wheel, length=wheel.length)
        kept = client.post(where, json=fields, retry=True)
    return kept


class _WheelFile:
    """The body of one ``POST /blobs``, the same each time it is iterated."""

    def __init__(self, path: str) -> None:
        self._path = path
        check_name(os.path.basename(path))
        try:
            about = os.stat(path)
            if not stat.S_ISREG(about.st_mode):  # opening a pipe would wait for a writer
                raise UserErrorException(
                    f"{path!r} is not a file", hint="name a wheel, as dist/" + _EXAMPLE
                )
            _check_content(path)
            self.size = about.st_size
            self.digest = _digest(path)
        except OSError as error:
            raise UserErrorException(
                f"the wheel {path!r} cannot be read: {error.strerror or error}",
                hint="name a file that is there, as dist/" + _EXAMPLE,
            ) from None
        self._head = f"{self.digest} {self.size}\n".encode()
        self.length = len(self._head) + self.size

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        left = self.size
        with open(self._path, "rb") as file:
            while left:
                block = file.read(min(_BLOCK, left))
                if not block:
                    raise UserErrorException(
                        f"the wheel {self._path!r} became shorter while it was sent",
                        hint="add it again when it is finished",
                    )
                left -= len(block)
                yield block


def _path(file_path: Any) -> str:
    try:
        return str(os.fsdecode(file_path))
    except TypeError:
        raise UserErrorException(
            f"{file_path!r} is no path of a wheel", hint="name its file"
        ) from None


def _check_content(path: str) -> None:
    """A wheel is a zip with a folder that describes it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        names = []
    if not any(name.endswith(".dist-info/WHEEL") for name in names):
        raise UserErrorException(
            f"{path!r} is not a wheel: it is no zip file with a .dist-info/WHEEL in it",
            hint="pip wheel . or python -m build --wheel makes one of a project",
        )


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            found.update(block)
    return found.hexdigest()
