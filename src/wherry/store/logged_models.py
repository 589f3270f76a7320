"""Models that runs log: their rows, how good they are, and the searches for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from wherry.core.errors import NotFoundError
from wherry.core.records import Workspace
from wherry.core.search import METRIC, PARAM, TAG, Condition, Order

from . import model_search
from .conditions import COMPARED
from .database import batches
from .model_search import Searched
from .model_tables import logged_models, model_metrics

PENDING, READY, FAILED = "PENDING", "READY", "FAILED"
_SEARCHED = Searched(
    logged_models,
    {
        "name": logged_models.c.name,
        "model_id": logged_models.c.id,
        "model_type": logged_models.c.model_type,
        "status": logged_models.c.status,
        "source_run_id": logged_models.c.source_run_id,
        "creation_timestamp": logged_models.c.created_at,
        "last_updated_timestamp": logged_models.c.modified_at,
    },
    {TAG: logged_models.c.tags, PARAM: logged_models.c.params},
)
_METRIC_KEYS = [column.name for column in model_metrics.primary_key]
_REMOVE_METRIC = delete(model_metrics).where(
    *[model_metrics.c[name] == bindparam(f"of_{name}") for name in _METRIC_KEYS]
)


class Dataset(NamedTuple):
    """Of any digest, where none is told."""

    name: str | None
    digest: str | None = None


class MetricOrder(NamedTuple):
    name: str
    descending: bool
    dataset: Dataset


class Search(NamedTuple):
    workspace_id: str
    experiment_ids: Sequence[str]
    conditions: Sequence[Condition]
    orders: Sequence[Order | MetricOrder]
    datasets: Sequence[Dataset]


def add(connection: Connection, fields: Mapping[str, Any]) -> None:
    connection.execute(insert(logged_models).values(**fields))


def find(connection: Connection, workspace_id: str, id: str, *, lock: bool = False) -> Any:
    query = select(logged_models).where(
        logged_models.c.id == id, logged_models.c.workspace_id == workspace_id
    )
    return connection.execute(query.with_for_update() if lock else query).first()


def get(
    connection: Connection, workspace: Workspace, id: str, *, lock: bool = False, gone: bool = False
) -> Row[Any]:
    """With ``gone``, also one that was deleted."""
    row = find(connection, workspace.id, id, lock=lock)
    if row is None or (row.deleted_at is not None and not gone):
        raise NotFoundError(f"Logged model with ID '{id}' not found.")
    return row  # type: ignore[no-any-return]


def change(connection: Connection, row: Row[Any], changes: Mapping[str, Any]) -> None:
    connection.execute(
        update(logged_models).where(logged_models.c.seq == row.seq).values(**changes)
    )


def page(
    connection: Connection, search: Search, limit: int, token: str | None
) -> tuple[Sequence[Row[Any]], str | None]:
    """The youngest first, where no order is asked for."""
    sqlite = connection.dialect.name == "sqlite"
    query = select(logged_models).where(
        logged_models.c.workspace_id == search.workspace_id,
        logged_models.c.experiment_id.in_(search.experiment_ids),
        logged_models.c.deleted_at.is_(None),
        *[_holds(each, search.datasets, sqlite) for each in search.conditions],
    )
    if search.datasets and not any(each.entity == METRIC for each in search.conditions):
        query = query.where(exists().where(_mine(), _on(search.datasets)))
    for order in search.orders:
        query = query.order_by(*_order(order))
    return model_search.page(connection, query.order_by(logged_models.c.seq.desc()), limit, token)


def add_metrics(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Those that are there already, of the same run, time and step, are not doubled."""
    single = {tuple(row[key] for key in _METRIC_KEYS): row for row in rows}
    if not single:
        return
    gone = [{f"of_{key}": row[key] for key in _METRIC_KEYS} for row in single.values()]
    connection.execute(_REMOVE_METRIC, gone)
    added = [{**row, "value": _number(row["value"])} for row in single.values()]
    connection.execute(insert(model_metrics), added)


def metrics(connection: Connection, seqs: Sequence[int]) -> dict[int, list[Row[Any]]]:
    """Of each model, in the order of time and step."""
    found: dict[int, list[Row[Any]]] = {seq: [] for seq in seqs}
    order = (model_metrics.c.name, model_metrics.c.at, model_metrics.c.step)
    for batch in batches(seqs):
        query = select(model_metrics).where(model_metrics.c.model_seq.in_(batch))
        for row in connection.execute(query.order_by(*order)):
            found[row.model_seq].append(row)
    return found


def remove_all(connection: Connection, of: ColumnElement[bool]) -> list[str]:
    """The ids of the models that went, whose files are left."""
    rows = connection.execute(select(logged_models.c.seq, logged_models.c.id).where(of)).all()
    for batch in batches(row.seq for row in rows):
        connection.execute(delete(model_metrics).where(model_metrics.c.model_seq.in_(batch)))
        connection.execute(delete(logged_models).where(logged_models.c.seq.in_(batch)))
    return [row.id for row in rows]


def _holds(condition: Condition, datasets: Sequence[Dataset], sqlite: bool) -> ColumnElement[bool]:
    if condition.entity != METRIC:
        return model_search.holds(_SEARCHED, condition, sqlite=sqlite)
    value = COMPARED[condition.operator](model_metrics.c.value, condition.value)
    named = model_metrics.c.name == condition.key
    return exists().where(_mine(), named, value, *([_on(datasets)] if datasets else []))


def _order(order: Order | MetricOrder) -> list[ColumnElement[Any]]:
    if isinstance(order, Order):
        return model_search.sorted_by(_SEARCHED, order)
    newest = (
        select(model_metrics.c.value)
        .where(_mine(), model_metrics.c.name == order.name)
        .order_by(model_metrics.c.at.desc(), model_metrics.c.step.desc())
        .limit(1)
    )
    if order.dataset.name:
        newest = newest.where(_on([order.dataset]))
    return model_search.directed(newest.scalar_subquery(), descending=order.descending)


def _mine() -> ColumnElement[bool]:
    return model_metrics.c.model_seq == logged_models.c.seq


def _on(datasets: Sequence[Dataset]) -> ColumnElement[bool]:
    """Measured with one of these."""
    return or_(
        *[
            and_(
                model_metrics.c.dataset_name == each.name,
                *([model_metrics.c.dataset_digest == each.digest] if each.digest else []),
            )
            for each in datasets
        ]
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
