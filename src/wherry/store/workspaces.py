"""Workspaces and their experiments."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from wherry.core.errors import ConflictError, NotFoundError
from wherry.core.ids import new_uuid
from wherry.core.nearest import suggest
from wherry.core.records import Experiment, Workspace
from wherry.core.sessions import EXPERIMENT as SESSIONS

from . import files, model_versions, registered_models
from .logged_models import remove_all as remove_logged
from .model_tables import logged_models
from .prepared import Prepared
from .tables import (
    computes,
    environment_labels,
    environments,
    experiments,
    runs,
    snapshots,
    wheels,
    workspaces,
)

_GUESSED = 1000
_BY_NAME = Prepared(select(workspaces).where(workspaces.c.name == bindparam("called")))
_EXPERIMENT = Prepared(
    select(experiments).where(
        experiments.c.workspace_id == bindparam("workspace"),
        experiments.c.name == bindparam("called"),
    )
)
_TAKE_NUMBERS = Prepared(
    update(experiments)
    .where(experiments.c.id == bindparam("experiment"))
    .values(run_count=experiments.c.run_count + bindparam("more"))
    .returning(experiments.c.run_count)
)


def create(
    connection: Connection, name: str, now: datetime, description: str, tags: Mapping[str, str]
) -> Workspace:
    record = Workspace(new_uuid(), name, description, dict(tags), now)
    try:
        connection.execute(insert(workspaces).values(**_fields(record)))
    except IntegrityError:
        raise ConflictError(
            f"workspace {name!r} exists already", hint="pass exist_ok=True to use it"
        ) from None
    return record


def find(connection: Connection, name: str) -> Workspace | None:
    row = _BY_NAME.first(connection, {"called": name})
    return Workspace(**row._mapping) if row else None


def get(connection: Connection, name: str) -> Workspace:
    workspace = find(connection, name)
    if workspace is None:
        raise NotFoundError(
            f"there is no workspace {name!r}{suggest(name, _names(connection))}",
            hint=f"make it with: wherry workspace create {name}",
        )
    return workspace


def _names(connection: Connection) -> list[str]:
    return [row.name for row in connection.execute(select(workspaces.c.name).limit(_GUESSED))]


def every(connection: Connection) -> list[Workspace]:
    rows = connection.execute(select(workspaces).order_by(workspaces.c.created_at))
    return [Workspace(**row._mapping) for row in rows]


def remove(connection: Connection, workspace: Workspace) -> None:
    """The workspace and its experiments; its runs must be gone."""
    held = select(runs.c.seq).where(runs.c.workspace_id == workspace.id).limit(1)
    if connection.execute(held).first():
        raise ConflictError(f"workspace {workspace.name!r} still has runs")
    owned = select(computes.c.id).where(computes.c.workspace_id == workspace.id).limit(1)
    if connection.execute(owned).first():
        raise ConflictError(f"workspace {workspace.name!r} still has compute targets")
    _remove_models(connection, workspace)
    for table in (experiments, environment_labels, environments, wheels, snapshots):
        connection.execute(delete(table).where(table.c.workspace_id == workspace.id))
    connection.execute(delete(workspaces).where(workspaces.c.id == workspace.id))


def _remove_models(connection: Connection, workspace: Workspace) -> None:
    known = registered_models.seqs(connection, workspace)
    versions = model_versions.remove_of(connection, known)
    registered_models.remove(connection, known)
    of = logged_models.c.workspace_id == workspace.id
    files.remove(connection, [*versions, *remove_logged(connection, of)])


def ensure_experiment(
    connection: Connection, workspace: Workspace, name: str, now: datetime
) -> Experiment:
    """The experiment, made if need be, and taken out of the archive."""
    experiment = find_experiment(connection, workspace, name)
    if experiment is None:
        record = Experiment(new_uuid(), name, workspace.name, "", {}, now)
        fields = _fields(record)
        del fields["workspace"]
        try:
            with connection.begin_nested():
                connection.execute(
                    insert(experiments).values(**fields, workspace_id=workspace.id, run_count=0)
                )
        except IntegrityError:  # another one made it at the same moment
            return get_experiment(connection, workspace, name)
        return record
    if experiment.archived_at is not None:
        update_experiment(connection, experiment, {"archived_at": None})
    return experiment


def find_experiment(connection: Connection, workspace: Workspace, name: str) -> Experiment | None:
    row = _EXPERIMENT.first(connection, {"workspace": workspace.id, "called": name})
    return _experiment(row, workspace) if row else None


def experiment_by_id(connection: Connection, workspace: Workspace, id: str) -> Experiment | None:
    query = select(experiments).where(
        experiments.c.id == id, experiments.c.workspace_id == workspace.id
    )
    row = connection.execute(query).first()
    return _experiment(row, workspace) if row else None


def get_experiment(connection: Connection, workspace: Workspace, name: str) -> Experiment:
    experiment = find_experiment(connection, workspace, name)
    if experiment is None:
        raise NotFoundError(f"workspace {workspace.name!r} has no experiment {name!r}")
    return experiment


def list_experiments(
    connection: Connection, workspace: Workspace, *, archived: bool
) -> list[Experiment]:
    query = select(experiments).where(
        experiments.c.workspace_id == workspace.id, experiments.c.name != SESSIONS
    )
    if not archived:
        query = query.where(experiments.c.archived_at.is_(None))
    rows = connection.execute(query.order_by(experiments.c.created_at))
    return [_experiment(row, workspace) for row in rows]


def update_experiment(
    connection: Connection, experiment: Experiment, changes: Mapping[str, Any]
) -> None:
    connection.execute(
        update(experiments).where(experiments.c.id == experiment.id).values(**changes)
    )


def remove_experiment(connection: Connection, experiment: Experiment) -> None:
    held = select(func.count()).select_from(runs).where(runs.c.experiment_id == experiment.id)
    count = connection.execute(held).scalar()
    if count:
        raise ConflictError(
            f"experiment {experiment.name!r} has {count} runs", hint="archive it, or delete them"
        )
    of = logged_models.c.experiment_id == experiment.id
    left = select(func.count()).where(of, logged_models.c.deleted_at.is_(None))
    if models := connection.execute(left).scalar():
        raise ConflictError(
            f"experiment {experiment.name!r} has {models} logged models",
            hint="archive it, or delete them: MlflowClient().delete_logged_model(ID)",
        )
    files.remove(connection, remove_logged(connection, of))
    connection.execute(delete(experiments).where(experiments.c.id == experiment.id))


def next_number(connection: Connection, experiment: Experiment, count: int = 1) -> int:
    """The first of ``count`` run numbers, taken for good."""
    (last,) = _TAKE_NUMBERS.one(connection, {"experiment": experiment.id, "more": count})
    return int(last) - count + 1


def _experiment(row: Row[Any], workspace: Workspace) -> Experiment:
    return Experiment(
        id=row.id,
        name=row.name,
        workspace=workspace.name,
        description=row.description,
        tags=row.tags,
        created_at=row.created_at,
        archived_at=row.archived_at,
    )


def _fields(record: Workspace | Experiment) -> dict[str, Any]:
    return dict(record.__dict__)
