"""Which blob stands behind which file of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from wherry.core.errors import NotFoundError
from wherry.core.records import RunFile

from .database import batches
from .tables import files


def put(
    connection: Connection, run_id: str, path: str, digest: str, size: int, now: datetime
) -> None:
    connection.execute(delete(files).where(files.c.run_id == run_id, files.c.path == path))
    connection.execute(
        insert(files).values(
            run_id=run_id, path=path, digest=digest, size_bytes=size, modified_at=now
        )
    )


def find(connection: Connection, run_id: str, path: str) -> RunFile | None:
    row = connection.execute(
        select(files).where(files.c.run_id == run_id, files.c.path == path)
    ).first()
    return _record(row) if row else None


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


def remove(connection: Connection, run_ids: Sequence[str]) -> None:
    for batch in batches(run_ids):
        connection.execute(delete(files).where(files.c.run_id.in_(batch)))


def digests(connection: Connection) -> set[str]:
    return set(connection.execute(select(files.c.digest).distinct()).scalars())


def _record(row: Any) -> RunFile:
    return RunFile(row.path, row.size_bytes, row.digest, row.modified_at)
