"""Registered environments: each version of a name is one row that never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from wherry.core.records import Workspace

from .tables import environments, workspaces


def lock(connection: Connection, workspace: Workspace) -> None:
    """Until this transaction is done, nobody else registers in the workspace.

    Runs are submitted meanwhile: their rows refer to the workspace's key, which stays free.
    """
    query = select(workspaces.c.id).where(workspaces.c.id == workspace.id)
    connection.execute(query.with_for_update(key_share=True))


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(environments).values(**row))


def find(
    connection: Connection, workspace: Workspace, name: str, version: str | None = None
) -> Row[Any] | None:
    """A version, or the newest one."""
    query = _of(workspace, name)
    if version is not None:
        query = query.where(environments.c.version == version)
    return connection.execute(query.order_by(environments.c.seq.desc()).limit(1)).first()


def same(
    connection: Connection, workspace: Workspace, name: str, fingerprint: str
) -> Row[Any] | None:
    """The newest version that promises the same."""
    query = _of(workspace, name).where(environments.c.fingerprint == fingerprint)
    return connection.execute(query.order_by(environments.c.seq.desc()).limit(1)).first()


def versions(connection: Connection, workspace: Workspace, name: str) -> list[Row[Any]]:
    """All versions of a name, the newest first."""
    return list(connection.execute(_of(workspace, name).order_by(environments.c.seq.desc())))


def newest(connection: Connection, workspace: Workspace) -> list[Row[Any]]:
    """The newest version of every name."""
    last = (
        select(func.max(environments.c.seq))
        .where(environments.c.workspace_id == workspace.id)
        .group_by(environments.c.name)
    )
    query = select(environments).where(environments.c.seq.in_(last))
    return list(connection.execute(query.order_by(environments.c.name)))


def next_version(connection: Connection, workspace: Workspace, name: str) -> str:
    """One more than the highest version that is a number."""
    query = select(environments.c.version).where(
        environments.c.workspace_id == workspace.id, environments.c.name == name
    )
    taken = (version for version in connection.execute(query).scalars() if version.isdecimal())
    return str(max((int(version) for version in taken if len(version) < 19), default=0) + 1)


def _of(workspace: Workspace, name: str) -> Any:
    return select(environments).where(
        environments.c.workspace_id == workspace.id, environments.c.name == name
    )
