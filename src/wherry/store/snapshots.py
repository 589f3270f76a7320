"""Which snapshots a workspace has; their file lists are blobs."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from .tables import environments, runs, snapshots

_HAS = select(snapshots.c.id).where(
    snapshots.c.workspace_id == bindparam("workspace"), snapshots.c.id == bindparam("snapshot")
)
_SINCE = _HAS.with_only_columns(snapshots.c.created_at)
_HAS_LOCKED = _HAS.with_for_update(read=True)


def has(connection: Connection, workspace_id: str, snapshot_id: str, *, lock: bool = False) -> bool:
    """With ``lock``, it stays at least until this transaction is done."""
    where = {"workspace": workspace_id, "snapshot": snapshot_id}
    return connection.execute(_HAS_LOCKED if lock else _HAS, where).first() is not None


def add(
    connection: Connection,
    workspace_id: str,
    snapshot_id: str,
    file_count: int,
    size: int,
    now: datetime,
) -> None:
    row = {
        "workspace_id": workspace_id,
        "id": snapshot_id,
        "file_count": file_count,
        "size_bytes": size,
        "created_at": now,
    }
    with suppress(IntegrityError), connection.begin_nested():  # two may send the same tree at once
        connection.execute(insert(snapshots).values(**row))
        return
    renew(connection, workspace_id, snapshot_id, now)


def since(connection: Connection, workspace_id: str, snapshot_id: str) -> datetime | None:
    """When it was last sent, or nearly; None if it is not there."""
    where = {"workspace": workspace_id, "snapshot": snapshot_id}
    return connection.execute(_SINCE, where).scalar()


def renew(connection: Connection, workspace_id: str, snapshot_id: str, now: datetime) -> bool:
    """Count it as new; False if it is no longer there."""
    mine = (snapshots.c.workspace_id == workspace_id, snapshots.c.id == snapshot_id)
    changed = connection.execute(update(snapshots).where(*mine).values(created_at=now))
    return changed.rowcount == 1


def workspaces_of(connection: Connection, snapshot_id: str) -> list[str]:
    query = select(snapshots.c.workspace_id).where(snapshots.c.id == snapshot_id)
    return list(connection.execute(query).scalars())


def every_id(connection: Connection) -> set[str]:
    return set(connection.execute(select(snapshots.c.id)).scalars())


def remove_unused(connection: Connection, before: datetime) -> None:
    """Those older than ``before`` that no run and no environment was made from."""
    users = (runs.c.snapshot_id, runs.c.context_id, environments.c.context_id)
    unused = [
        ~exists().where(
            column == snapshots.c.id, column.table.c.workspace_id == snapshots.c.workspace_id
        )
        for column in users
    ]
    connection.execute(delete(snapshots).where(snapshots.c.created_at < before, *unused))
