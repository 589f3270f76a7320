"""Files of models: kept under the model's id as those of a run under the run's."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from wherry.core.errors import NotFoundError
from wherry.core.records import RunFile
from wherry.store import files

from .files import check_name
from .plane import Plane


def put(plane: Plane, model_id: str, path: str, chunks: Iterable[bytes]) -> RunFile:
    check_name(path)
    (blob,) = plane.blobs.put_many([(None, chunks)])
    stored = RunFile(path, blob.size, blob.digest, plane.now())
    with plane.write() as connection:
        files.put_many(connection, model_id, [stored])
    return stored


def every(plane: Plane, model_id: str) -> list[RunFile]:
    with plane.database.read() as connection:
        return files.every(connection, model_id)


def get(plane: Plane, model_id: str, path: str) -> RunFile:
    with plane.database.read() as connection:
        found = files.find(connection, model_id, path)
    if found is None:
        raise NotFoundError(f"model {model_id} has no file {path!r}")
    return found


def remove_below(plane: Plane, model_id: str, path: str) -> None:
    with plane.write() as connection:
        if not files.remove_below(connection, model_id, path.strip("/")):
            raise NotFoundError(f"model {model_id} has no file {path!r}")


def copy(connection: Connection, source: str, below: str, model_id: str) -> int:
    """How many files the model now has that lie below a path of a run or another model.

    Their bytes are not copied: both names stand for the same ones.
    """
    folder = f"{below.strip('/')}/" if below.strip("/") else ""
    found = [
        RunFile(each.path[len(folder) :], each.size, each.digest, each.modified_at)
        for each in files.every(connection, source)
        if each.path.startswith(folder)
    ]
    files.put_many(connection, model_id, found)
    return len(found)
