"""Models by name: their rows, and the aliases of their versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from wherry.core.errors import ConflictError, NotFoundError
from wherry.core.records import Workspace
from wherry.core.search import TAG, Condition, Order

from . import model_search
from .database import batches
from .model_search import Searched
from .model_tables import model_aliases, registered_models

_SEARCHED = Searched(
    registered_models,
    {
        "name": registered_models.c.name,
        "creation_timestamp": registered_models.c.created_at,
        "last_updated_timestamp": registered_models.c.modified_at,
    },
    {TAG: registered_models.c.tags},
)


def add(connection: Connection, workspace: Workspace, fields: Mapping[str, Any]) -> None:
    try:
        with connection.begin_nested():
            connection.execute(
                insert(registered_models).values(
                    workspace_id=workspace.id, last_version=0, **fields
                )
            )
    except IntegrityError:
        raise _taken(fields["name"]) from None


def find(
    connection: Connection, workspace: Workspace, name: str, *, lock: bool = False
) -> Row[Any] | None:
    query = select(registered_models).where(
        registered_models.c.workspace_id == workspace.id, registered_models.c.name == name
    )
    return connection.execute(query.with_for_update() if lock else query).first()


def get(connection: Connection, workspace: Workspace, name: str, *, lock: bool = False) -> Row[Any]:
    row = find(connection, workspace, name, lock=lock)
    if row is None:
        raise NotFoundError(f"Registered Model with name={name} not found")
    return row


def change(connection: Connection, row: Row[Any], changes: Mapping[str, Any]) -> None:
    try:
        with connection.begin_nested():
            connection.execute(
                update(registered_models)
                .where(registered_models.c.seq == row.seq)
                .values(**changes)
            )
    except IntegrityError:
        raise _taken(changes.get("name", row.name)) from None


def next_version(connection: Connection, row: Row[Any], now: datetime) -> int:
    """A number for a version, taken for good; whoever wants the next one waits until this
    transaction is done.
    """
    taking = (
        update(registered_models)
        .where(registered_models.c.seq == row.seq)
        .values(last_version=registered_models.c.last_version + 1, modified_at=now)
        .returning(registered_models.c.last_version)
    )
    return int(connection.execute(taking).scalar_one())


def page(
    connection: Connection,
    workspace: Workspace,
    conditions: Sequence[Condition],
    orders: Sequence[Order],
    limit: int,
    token: str | None,
) -> tuple[Sequence[Row[Any]], str | None]:
    """By name, where no order is asked for."""
    sqlite = connection.dialect.name == "sqlite"
    query = select(registered_models).where(
        registered_models.c.workspace_id == workspace.id,
        *[model_search.holds(_SEARCHED, each, sqlite=sqlite) for each in conditions],
    )
    for order in orders:
        query = query.order_by(*model_search.sorted_by(_SEARCHED, order))
    return model_search.page(connection, query.order_by(registered_models.c.name), limit, token)


def remove(connection: Connection, seqs: Sequence[int]) -> None:
    """Those whose versions are gone."""
    for batch in batches(seqs):
        connection.execute(delete(model_aliases).where(model_aliases.c.model_seq.in_(batch)))
        connection.execute(delete(registered_models).where(registered_models.c.seq.in_(batch)))


def seqs(connection: Connection, workspace: Workspace) -> list[int]:
    of = registered_models.c.workspace_id == workspace.id
    return list(connection.execute(select(registered_models.c.seq).where(of)).scalars())


def aliases(connection: Connection, seqs: Sequence[int]) -> dict[int, dict[str, int]]:
    """Of each model, the versions that they stand for."""
    found: dict[int, dict[str, int]] = {seq: {} for seq in seqs}
    for batch in batches(seqs):
        query = select(model_aliases).where(model_aliases.c.model_seq.in_(batch))
        for row in connection.execute(query.order_by(model_aliases.c.alias)):
            found[row.model_seq][row.alias] = row.version
    return found


def set_alias(connection: Connection, model: Row[Any], alias: str, version: int) -> None:
    remove_alias(connection, model, alias)
    connection.execute(
        insert(model_aliases).values(model_seq=model.seq, alias=alias, version=version)
    )


def remove_alias(connection: Connection, model: Row[Any], alias: str) -> None:
    connection.execute(
        delete(model_aliases).where(
            model_aliases.c.model_seq == model.seq, model_aliases.c.alias == alias
        )
    )


def _taken(name: str) -> ConflictError:
    return ConflictError(f"Registered Model (name={name}) already exists.")
