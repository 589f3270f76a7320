"""Versions of registered models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from wherry.core.errors import NotFoundError
from wherry.core.records import Workspace
from wherry.core.search import PROPERTY, TAG, Condition, Order

from . import model_search
from .database import batches
from .model_search import Searched
from .model_tables import model_aliases, model_versions, registered_models

NO_STAGE, STAGING, PRODUCTION, ARCHIVED = "None", "Staging", "Production", "Archived"
STAGES = (NO_STAGE, STAGING, PRODUCTION, ARCHIVED)
READY = "READY"
_NAMED = select(
    model_versions,
    registered_models.c.name,
    registered_models.c.workspace_id,
).join(registered_models, registered_models.c.seq == model_versions.c.model_seq)
_SEARCHED = Searched(
    model_versions,
    {
        "name": registered_models.c.name,
        "version_number": model_versions.c.version,
        "run_id": model_versions.c.run_id,
        "source_path": model_versions.c.source,
        "stage": model_versions.c.stage,
        "creation_timestamp": model_versions.c.created_at,
        "last_updated_timestamp": model_versions.c.modified_at,
    },
    {TAG: model_versions.c.tags, PROPERTY: model_versions.c.properties},
)


def add(connection: Connection, model: Row[Any], fields: Mapping[str, Any]) -> None:
    connection.execute(insert(model_versions).values(model_seq=model.seq, **fields))


def get(connection: Connection, workspace: Workspace, name: str, version: int) -> Row[Any]:
    """With the model's ``name``."""
    query = _NAMED.where(
        registered_models.c.workspace_id == workspace.id,
        registered_models.c.name == name,
        model_versions.c.version == version,
    )
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Model Version (name={name}, version={version}) not found")
    return row


def find_by_id(connection: Connection, workspace: Workspace, id: str) -> Row[Any] | None:
    query = _NAMED.where(
        registered_models.c.workspace_id == workspace.id, model_versions.c.id == id
    )
    return connection.execute(query).first()


def change(connection: Connection, seqs: Sequence[int], changes: Mapping[str, Any]) -> None:
    for batch in batches(seqs):
        connection.execute(
            update(model_versions).where(model_versions.c.seq.in_(batch)).values(**changes)
        )


def in_stage(connection: Connection, model: Row[Any], stage: str) -> list[int]:
    query = select(model_versions.c.seq).where(
        model_versions.c.model_seq == model.seq, model_versions.c.stage == stage
    )
    return list(connection.execute(query).scalars())


def latest(connection: Connection, model_seqs: Sequence[int]) -> dict[int, list[Row[Any]]]:
    """Of each model the youngest version in each stage."""
    found: dict[int, list[Row[Any]]] = {seq: [] for seq in model_seqs}
    for batch in batches(model_seqs):
        youngest = (
            select(func.max(model_versions.c.seq))
            .where(model_versions.c.model_seq.in_(batch))
            .group_by(model_versions.c.model_seq, model_versions.c.stage)
        )
        query = _NAMED.where(model_versions.c.seq.in_(youngest))
        for row in connection.execute(query.order_by(model_versions.c.version)):
            found[row.model_seq].append(row)
    return found


def of_logged_models(connection: Connection, ids: Sequence[str]) -> dict[str, list[Row[Any]]]:
    found: dict[str, list[Row[Any]]] = {}
    for batch in batches(ids):
        query = _NAMED.where(model_versions.c.logged_model_id.in_(batch))
        for row in connection.execute(query.order_by(model_versions.c.seq)):
            found.setdefault(row.logged_model_id, []).append(row)
    return found


def page(
    connection: Connection,
    workspace: Workspace,
    conditions: Sequence[Condition],
    orders: Sequence[Order],
    limit: int,
    token: str | None,
) -> tuple[Sequence[Row[Any]], str | None]:
    """What changed last first, where no order is asked for."""
    sqlite = connection.dialect.name == "sqlite"
    query = _NAMED.where(
        registered_models.c.workspace_id == workspace.id,
        *[model_search.holds(_SEARCHED, each, sqlite=sqlite) for each in conditions],
    )
    for order in orders:
        query = query.order_by(*model_search.sorted_by(_SEARCHED, order))
    if not orders:
        query = query.order_by(model_versions.c.modified_at.desc())
    query = query.order_by(registered_models.c.name, model_versions.c.version.desc())
    return model_search.page(connection, query, limit, token)


def remove(connection: Connection, row: Row[Any]) -> None:
    """With its aliases; its files are left."""
    connection.execute(
        delete(model_aliases).where(
            model_aliases.c.model_seq == row.model_seq, model_aliases.c.version == row.version
        )
    )
    connection.execute(delete(model_versions).where(model_versions.c.seq == row.seq))


def remove_of(connection: Connection, model_seqs: Sequence[int]) -> list[str]:
    """The ids of the versions that went with their models, whose files are left."""
    gone: list[str] = []
    for batch in batches(model_seqs):
        mine = model_versions.c.model_seq.in_(batch)
        gone += connection.execute(select(model_versions.c.id).where(mine)).scalars()
        connection.execute(delete(model_aliases).where(model_aliases.c.model_seq.in_(batch)))
        connection.execute(delete(model_versions).where(mine))
    return gone
