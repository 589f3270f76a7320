"""Labels of environments: each is on one version of a name, and may be put on another."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from wherry.core.records import Workspace

from .tables import environment_labels as labels


def put(connection: Connection, workspace: Workspace, name: str, label: str, version: str) -> None:
    """Under the lock of ``environments.lock``: nobody else writes one meanwhile."""
    place = {"workspace_id": workspace.id, "name": name, "label": label}
    connection.execute(delete(labels).filter_by(**place))
    connection.execute(insert(labels).values(**place, version=version))


def remove(connection: Connection, workspace: Workspace, name: str, label: str) -> None:
    place = {"workspace_id": workspace.id, "name": name, "label": label}
    connection.execute(delete(labels).filter_by(**place))


def version_of(connection: Connection, workspace: Workspace, name: str, label: str) -> str | None:
    query = select(labels.c.version).filter_by(workspace_id=workspace.id, name=name, label=label)
    return connection.execute(query).scalar()


def by_version(
    connection: Connection, workspace: Workspace, name: str | None = None
) -> dict[tuple[str, str], list[str]]:
    """The labels of each version, of one name or of all."""
    query = select(labels).filter_by(workspace_id=workspace.id).order_by(labels.c.label)
    if name is not None:
        query = query.filter_by(name=name)
    found: dict[tuple[str, str], list[str]] = {}
    for row in connection.execute(query):
        found.setdefault((row.name, row.version), []).append(row.label)
    return found
