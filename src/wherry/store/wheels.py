"""Wheels that workspaces keep; their contents are blobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from wherry.core.records import Workspace

from .tables import wheels


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    """Under the lock of ``environments.lock``: nobody else writes one meanwhile."""
    connection.execute(insert(wheels).values(**row))


def named(connection: Connection, workspace: Workspace, name: str) -> list[Row[Any]]:
    """Those with this file name, the newest first."""
    query = select(wheels).filter_by(workspace_id=workspace.id, name=name)
    return list(connection.execute(query.order_by(wheels.c.seq.desc())))


def every(connection: Connection, workspace: Workspace) -> list[Row[Any]]:
    """All of a workspace, the newest first."""
    query = select(wheels).filter_by(workspace_id=workspace.id)
    return list(connection.execute(query.order_by(wheels.c.seq.desc())))


def size_of(connection: Connection, workspace_id: str, digest: str) -> int | None:
    """None if the workspace has no such wheel."""
    query = select(wheels.c.size_bytes).filter_by(workspace_id=workspace_id, digest=digest)
    return connection.execute(query.limit(1)).scalar()


def among(connection: Connection, workspace_id: str, digests: Collection[str]) -> set[str]:
    """Which of these the workspace has."""
    query = select(wheels.c.digest).filter_by(workspace_id=workspace_id)
    return set(connection.execute(query.where(wheels.c.digest.in_(digests))).scalars())


def digests(connection: Connection) -> set[str]:
    return set(connection.execute(select(wheels.c.digest)).scalars())
