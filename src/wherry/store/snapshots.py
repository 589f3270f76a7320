"""Which snapshots a workspace has. Their lists of files are blobs, or differ little from one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, exists, select, update
from sqlalchemy.dialects import postgresql, sqlite

from .prepared import Prepared
from .tables import environments, runs, snapshots

_OWN = select(snapshots.c.id).where(
    snapshots.c.workspace_id == bindparam("workspace"), snapshots.c.id == bindparam("snapshot")
)
_FOUND = _OWN.with_only_columns(snapshots.c.created_at, snapshots.c.base_id)
_HAS = Prepared(_OWN)
_HAS_LOCKED = Prepared(_OWN.with_for_update(read=True))


_ADD = {
    name: insert.on_conflict_do_update(
        index_elements=[snapshots.c.workspace_id, snapshots.c.id],
        set_={"created_at": insert.excluded.created_at},
    )
    for name, insert in (
        ("sqlite", sqlite.insert(snapshots)),
        ("postgresql", postgresql.insert(snapshots)),
    )
}


class Found(NamedTuple):
    """When a snapshot was last sent, or nearly, and which blob lists its files, or nearly."""

    since: datetime
    list_id: str
    whole: bool


class Difference(NamedTuple):
    """How a snapshot differs from the list of files that is the blob ``base_id``."""

    base_id: str
    files: list[dict[str, Any]]
    removed: list[str]


def has(connection: Connection, workspace_id: str, snapshot_id: str, *, lock: bool = False) -> bool:
    """With ``lock``, it stays at least until this transaction is done."""
    where = {"workspace": workspace_id, "snapshot": snapshot_id}
    return (_HAS_LOCKED if lock else _HAS).first(connection, where) is not None


def add(
    connection: Connection,
    workspace_id: str,
    snapshot_id: str,
    file_count: int,
    size: int,
    now: datetime,
    difference: Difference | None = None,
) -> None:
    """``difference``: its list of files is not a blob. One that is there already counts as new."""
    row: dict[str, Any] = {
        "workspace_id": workspace_id,
        "id": snapshot_id,
        "file_count": file_count,
        "size_bytes": size,
        "created_at": now,
        "base_id": None,
        "changes": None,
    }
    if difference is not None:
        base_id, files, removed = difference
        row |= {"base_id": base_id, "changes": {"files": files, "removed": removed}}
    connection.execute(_ADD[connection.dialect.name], row)


def find(connection: Connection, workspace_id: str, snapshot_id: str) -> Found | None:
    where = {"workspace": workspace_id, "snapshot": snapshot_id}
    row = connection.execute(_FOUND, where).first()
    if row is None:
        return None
    return Found(row.created_at, row.base_id or snapshot_id, whole=row.base_id is None)


def renew(connection: Connection, workspace_id: str, snapshot_id: str, now: datetime) -> bool:
    """Count it as new; False if it is no longer there."""
    mine = (snapshots.c.workspace_id == workspace_id, snapshots.c.id == snapshot_id)
    changed = connection.execute(update(snapshots).where(*mine).values(created_at=now))
    return changed.rowcount == 1


def ways_to(connection: Connection, snapshot_id: str) -> list[Difference | None]:
    """How workspaces have it: None where its list of files is a blob. None at all if none has."""
    columns = (snapshots.c.base_id, snapshots.c.changes)
    query = select(*columns).where(snapshots.c.id == snapshot_id)
    return [
        None if base_id is None else Difference(base_id, changes["files"], changes["removed"])
        for base_id, changes in connection.execute(query)
    ]


def used(connection: Connection) -> tuple[set[str], set[str]]:
    """The blobs that are lists of files, and those that differences from them name."""
    lists, contents = set(), set()
    query = select(snapshots.c.id, snapshots.c.base_id, snapshots.c.changes)
    for snapshot_id, base_id, changes in connection.execute(query):
        lists.add(base_id or snapshot_id)
        if base_id is not None:
            contents |= {file["digest"] for file in changes["files"]}
    return lists, contents


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
