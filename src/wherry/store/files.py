"""Which blob stands behind which file of a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, true

from wherry.core.errors import NotFoundError
from wherry.core.records import RunFile

from .database import batches
from .prepared import Prepared
from .tables import files

_ADD = insert(files)
_REMOVE = delete(files).where(
    files.c.run_id == bindparam("of"), files.c.path == bindparam("called")
)


def put_many(
    connection: Connection, run_id: str, records: Sequence[RunFile], rank: int = 0
) -> None:
    """Each in the place of what had its name; no name twice. ``rank`` is the node they are from."""
    if not records:
        return
    connection.execute(_REMOVE, [{"of": run_id, "called": each.path} for each in records])
    rows = [
        {
            "run_id": run_id,
            "path": each.path,
            "digest": each.digest,
            "size_bytes": each.size,
            "modified_at": each.modified_at,
            "rank": rank,
        }
        for each in records
    ]
    connection.execute(_ADD, rows)


def others(
    connection: Connection, run_id: str, paths: Sequence[str], rank: int
) -> dict[str, tuple[int, RunFile]]:
    """Those of these names that come from other nodes, each with the node's rank."""
    theirs = select(files).where(files.c.run_id == run_id, files.c.rank != rank)
    return {
        row.path: (row.rank, _record(row))
        for batch in batches(paths)
        for row in connection.execute(theirs.where(files.c.path.in_(batch)))
    }


def find(connection: Connection, run_id: str, path: str) -> RunFile | None:
    row = connection.execute(
        select(files).where(files.c.run_id == run_id, files.c.path == path)
    ).first()
    return _record(row) if row else None


def among(connection: Connection, run_id: str, paths: Sequence[str]) -> dict[str, RunFile]:
    """Those of these names that there are."""
    of_run = select(files).where(files.c.run_id == run_id)
    return {
        row.path: _record(row)
        for batch in batches(paths)
        for row in connection.execute(of_run.where(files.c.path.in_(batch)))
    }


def get(connection: Connection, run_id: str, path: str) -> RunFile:
    record = find(connection, run_id, path)
    if record is None:
        raise NotFoundError(
            f"run {run_id} has no file {path!r}", hint="run.get_file_names() lists its files"
        )
    return record


def every(connection: Connection, run_id: str) -> list[RunFile]:
    rows = connection.execute(select(files).where(files.c.run_id == run_id).order_by(files.c.path))
    return [_record(row) for row in rows]


def paths_below(connection: Connection, run_id: str, *folders: str) -> list[str]:
    """The names of the files in these folders, whatever else the run has."""
    return [path for (path,) in _paths_below(folders).rows(connection, {"of": run_id})]


@cache
def _paths_below(folders: tuple[str, ...]) -> Prepared:
    within = or_(*(files.c.path.startswith(f"{folder}/", autoescape=True) for folder in folders))
    of_run = files.c.run_id == bindparam("of")
    return Prepared(select(files.c.path).where(of_run, within).order_by(files.c.path))


def remove(connection: Connection, run_ids: Sequence[str]) -> None:
    for batch in batches(run_ids):
        connection.execute(delete(files).where(files.c.run_id.in_(batch)))


def remove_below(connection: Connection, run_id: str, path: str) -> int:
    """How many files went that have this name, or are in the folder of this name."""
    below = files.c.path.startswith(f"{path}/", autoescape=True)
    named = or_(files.c.path == path, below) if path else true()
    gone = delete(files).where(files.c.run_id == run_id, named)
    return connection.execute(gone).rowcount


def digests(connection: Connection) -> set[str]:
    return set(connection.execute(select(files.c.digest).distinct()).scalars())


def _record(row: Any) -> RunFile:
    return RunFile(row.path, row.size_bytes, row.digest, row.modified_at)
