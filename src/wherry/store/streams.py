"""How much of each spool has arrived."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from wherry.core.errors import ConflictError

from .database import batches
from .tables import streams


def take(connection: Connection, run_id: str, name: str, offset: int, length: int) -> int:
    """How many of the bytes are not new (0 when all are), and remember that all arrived.

    A gap raises ``ConflictError`` with the size expected.
    """
    size = sizes(connection, run_id).get(name)
    if offset > (size or 0):
        raise ConflictError(
            f"bytes {size or 0} to {offset} of stream {name!r} are missing", size=size or 0
        )
    known = (size or 0) - offset
    if size is None:
        connection.execute(
            insert(streams).values(run_id=run_id, name=name, size_bytes=offset + length)
        )
    elif length > known:
        connection.execute(
            update(streams)
            .where(streams.c.run_id == run_id, streams.c.name == name)
            .values(size_bytes=offset + length)
        )
    return min(known, length)


def sizes(connection: Connection, run_id: str) -> dict[str, int]:
    rows = connection.execute(
        select(streams.c.name, streams.c.size_bytes).where(streams.c.run_id == run_id)
    )
    return {str(name): int(size) for name, size in rows}


def remove(connection: Connection, run_ids: Sequence[str]) -> None:
    for batch in batches(run_ids):
        connection.execute(delete(streams).where(streams.c.run_id.in_(batch)))
