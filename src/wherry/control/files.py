"""A run's files and logs, as one tree of names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from sqlalchemy import Connection

from wherry.blobs.base import Blob
from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.records import RunFile
from wherry.core.snapshots import check_path
from wherry.store import attempts, files, runs

from . import of_nodes, run_logs
from .of_nodes import MAX_NAME_BYTES
from .plane import Plane
from .run_logs import STD_LOG

_LOG_FOLDERS = ("user_logs", "system_logs", "azureml-logs", "logs")
_ALIASES = {"azureml-logs/70_driver_log.txt": STD_LOG, "std_log.txt": STD_LOG}


def put(
    plane: Plane, run_id: str, path: str, chunks: Iterable[bytes], attempt_id: str | None = None
) -> RunFile:
    return put_many(plane, run_id, [(path, chunks)], attempt_id)[0]


def put_many(
    plane: Plane,
    run_id: str,
    contents: Iterable[tuple[str, Iterable[bytes]]],
    attempt_id: str | None = None,
) -> list[RunFile]:
    """All of them or none. Each content is read before the next is asked for.

    ``attempt_id`` tells of a run on several nodes which of them it is.
    """
    _check_run(plane, run_id)
    paths: list[str] = []

    def checked() -> Iterator[tuple[None, Iterable[bytes]]]:
        for path, chunks in contents:
            check_name(path)
            paths.append(path)
            yield None, chunks

    return _record(plane, run_id, paths, plane.blobs.put_many(checked()), attempt_id)


def put_rest(
    plane: Plane,
    run_id: str,
    path: str,
    chunks: Iterable[bytes],
    upload: str,
    offset: int,
    attempt_id: str | None = None,
) -> RunFile:
    """The end of a file whose first ``offset`` bytes are here; ``upload`` tells it from others.

    When the chunks break off, what came of them is kept until somebody goes on.
    """
    _check_run(plane, run_id)
    check_name(path)
    blob = plane.partials.put(f"{run_id}/{upload}", offset, chunks)
    return _record(plane, run_id, [path], [blob], attempt_id)[0]


def arrived(plane: Plane, run_id: str, upload: str) -> int:
    """How many bytes of an upload are here."""
    _check_run(plane, run_id)
    return plane.partials.size(f"{run_id}/{upload}")


def _check_run(plane: Plane, run_id: str) -> None:
    with plane.database.read() as connection:
        runs.get(connection, run_id)


def _record(
    plane: Plane,
    run_id: str,
    paths: Sequence[str],
    blobs: Sequence[Blob],
    attempt_id: str | None,
) -> list[RunFile]:
    now = plane.now()
    stored = {
        path: RunFile(path, blob.size, blob.digest, now)
        for path, blob in zip(paths, blobs, strict=True)
    }
    with plane.write() as connection:
        run = runs.get(connection, run_id, lock=True)
        if run.node_count > 1 and attempt_id is not None:
            of_nodes.put_many(connection, run_id, list(stored.values()), attempt_id)
        else:
            files.put_many(connection, run_id, list(stored.values()))
    plane.changed(run_id)
    return [stored[path] for path in paths]


def check_name(path: str) -> None:
    check_path(path)
    if len(path.encode()) > MAX_NAME_BYTES:
        raise UserErrorException(f"the name of a file has at most {MAX_NAME_BYTES} bytes")


def every(plane: Plane, run_id: str) -> list[RunFile]:
    """Stored files and logs, sorted by name."""
    with plane.database.read() as connection:
        run = runs.get(connection, run_id)
        stored = files.every(connection, run_id)
        logs = _logs(plane, connection, run_id)
    listed = [
        RunFile(name, plane.logs.size(key), "", run.ended_at or plane.now())
        for name, key in logs.items()
    ]
    return sorted([*stored, *listed], key=lambda file: file.path)


def log_names(plane: Plane, connection: Connection, run_id: str) -> list[str]:
    """What ``get_details()`` calls log files."""
    stored = files.paths_below(connection, run_id, *_LOG_FOLDERS)
    return sorted([*stored, *_logs(plane, connection, run_id)])


def find(plane: Plane, run_id: str, path: str) -> RunFile | None:
    """The stored file; None where the name is not one."""
    with plane.database.read() as connection:
        runs.get(connection, run_id)
        return files.find(connection, run_id, path)


def remove_below(plane: Plane, run_id: str, path: str) -> None:
    """A file, or all that is below a folder."""
    with plane.write() as connection:
        runs.get(connection, run_id, lock=True)
        if not files.remove_below(connection, run_id, path.strip("/")):
            raise NotFoundError(f"run {run_id} has no file {path!r}")
    plane.changed(run_id)


def open_many(
    plane: Plane, run_id: str, paths: Sequence[str]
) -> Iterator[tuple[RunFile, BinaryIO]]:
    """Stored files in the order of their names here; ``NotFoundError`` where one is not there."""
    with plane.database.read() as connection:
        runs.get(connection, run_id)
        found = files.among(connection, run_id, paths)
    for path in paths:
        if path not in found:
            raise NotFoundError(
                f"run {run_id} has no file {path!r}", hint="run.get_file_names() lists its files"
            )
    records = [found[path] for path in paths]
    return zip(records, plane.blobs.open_many(each.digest for each in records), strict=True)


def log_of(plane: Plane, connection: Connection, run_id: str, name: str) -> str:
    """The key of a log in the log store."""
    logs = _logs(plane, connection, run_id)
    key = logs.get(_ALIASES.get(name, name))
    if key is None:
        raise NotFoundError(
            f"run {run_id} has no log or file {name!r}",
            hint="run.get_file_names() lists what it has",
        )
    return key


def _logs(plane: Plane, connection: Connection, run_id: str) -> dict[str, str]:
    return run_logs.named(plane, run_id, attempts.of_run(connection, run_id))
