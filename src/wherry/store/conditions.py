"""Conditions of a search, as SQL about one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    String,
    and_,
    exists,
    func,
    literal_column,
    not_,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from wherry.core.errors import UserErrorException
from wherry.core.mlflow import stored_statuses
from wherry.core.search import ATTRIBUTE, DATASET, METRIC, PARAM, PROPERTY, TAG, Condition, Value

from . import run_labels
from .model_tables import input_datasets, run_datasets
from .run_inputs import CONTEXT
from .tables import bytewise, equals, experiments, labels, runs, series

Test = Callable[[Any, str, Value], ColumnElement[bool]]
_KINDS = {TAG: run_labels.TAG, PARAM: run_labels.PARAM, PROPERTY: run_labels.PROPERTY}
COMPARED: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
}
_MICROSECONDS = 1000
_FAR = 2**62
_ONE: ColumnElement[int] = literal_column("1")
_STARTED = func.coalesce(
    type_coerce(runs.c.started_at, BigInteger), type_coerce(runs.c.submitted_at, BigInteger)
)
# Tags by which MLflow tells what a run has a column for.
_COLUMNS_OF_TAGS: dict[str, Any] = {
    "mlflow.parentRunId": runs.c.parent_id,
    "mlflow.runName": runs.c.display_name,
    "mlflow.user": runs.c.submitted_by,
}
NUMBERS: dict[str, Any] = {
    "start_time": _STARTED,
    "end_time": type_coerce(runs.c.ended_at, BigInteger),
    "submit_time": type_coerce(runs.c.submitted_at, BigInteger),
    "number": runs.c.number,
}


class like(FunctionElement[bool]):
    """``LIKE`` that knows capitals from small letters, on SQLite as well."""

    type = Boolean()
    inherit_cache = True


@compiles(like)
def _like(element: like, compiler: Any, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    return f"({text} LIKE {pattern})"


@compiles(like, "sqlite")
def _glob(element: like, compiler: Any, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    return f"({text} GLOB {pattern})"


class name_of(FunctionElement[str]):
    """What people call a target: what comes after the workspace in its key."""

    type = String()
    inherit_cache = True


@compiles(name_of)
def _behind(element: name_of, compiler: Any, **options: Any) -> str:
    text = compiler.process(element.clauses, **options)
    return f"substr({text}, strpos({text}, '/') + 1)"


@compiles(name_of, "sqlite")
def _behind_in_sqlite(element: name_of, compiler: Any, **options: Any) -> str:
    text = compiler.process(element.clauses, **options)
    return f"substr({text}, instr({text}, '/') + 1)"


_TEXTS: dict[str, Any] = {
    "run_id": runs.c.id,
    "run_name": runs.c.display_name,
    "user_id": runs.c.submitted_by,
    "target": name_of(runs.c.target),
    "type": runs.c.type,
    "parent_id": runs.c.parent_id,
}


_OF_DATASETS: dict[str, Any] = {
    "name": input_datasets.c.name,
    "digest": input_datasets.c.digest,
    "context": run_datasets.c.tags[CONTEXT].as_string(),
}


def holds(condition: Condition, *, sqlite: bool) -> ColumnElement[bool]:
    """Whether it does, of the run in ``runs``."""
    entity, key, operator, value = condition
    if entity == METRIC:
        return _there_is(series.c.run_seq == runs.c.seq, *of_metric(condition), sqlite=sqlite)
    if entity == ATTRIBUTE:
        return _attribute(key, operator, value, sqlite)
    if entity == TAG and key in _COLUMNS_OF_TAGS:
        return of_text(_COLUMNS_OF_TAGS[key], operator, value, sqlite)
    if entity == DATASET:
        return _dataset(key, operator, value, sqlite)
    if entity not in _KINDS:
        raise UserErrorException(f"runs cannot be searched by {entity}")
    mine = [labels.c.run_seq == runs.c.seq, labels.c.kind == _KINDS[entity], labels.c.key == key]
    if operator == "IS NULL":
        return not_(_there_is(*mine, sqlite=sqlite))
    if operator == "IS NOT NULL":
        return _there_is(*mine, sqlite=sqlite)
    return _there_is(*mine, of_text(labels.c.value, operator, value, sqlite), sqlite=sqlite)


def _there_is(*where: Any, sqlite: bool) -> ColumnElement[bool]:
    """Looked up for one run after the other. Without the offset PostgreSQL would rather join all
    rows of both tables, for the sake of the first few.
    """
    return exists().where(*where) if sqlite else exists(select(_ONE).where(*where).offset(0))


def _dataset(key: str, operator: str, value: Value, sqlite: bool) -> ColumnElement[bool]:
    """Whether one that the run took in is so; for IS NULL, whether none is."""
    if key not in _OF_DATASETS:
        raise UserErrorException(
            f"datasets have no {key!r}", hint=f"they have {', '.join(_OF_DATASETS)}"
        )
    mine = exists().where(
        run_datasets.c.run_seq == runs.c.seq,
        run_datasets.c.dataset_seq == input_datasets.c.seq,
    )
    if operator == "IS NULL":
        return not_(mine.where(_OF_DATASETS[key].is_not(None)))
    return mine.where(of_text(_OF_DATASETS[key], operator, value, sqlite))


def of_metric(condition: Condition) -> list[ColumnElement[bool]]:
    """For the row of the metric."""
    last = COMPARED[condition.operator](series.c.last_value, condition.value)
    return [*equals(series.c.name, condition.key), last]


def narrow(condition: Condition, experiment_ids: Sequence[str]) -> Any:
    """The runs that meet it, by an index; None where there is none for it."""
    entity, key, operator, value = condition
    if entity == METRIC and experiment_ids and operator != "!=":
        return select(series.c.run_seq).where(
            series.c.experiment_id.in_(experiment_ids), *of_metric(condition)
        )
    if entity in _KINDS and operator == "=" and not (entity == TAG and key in _COLUMNS_OF_TAGS):
        return select(labels.c.run_seq).where(
            labels.c.kind == _KINDS[entity],
            labels.c.key == key,
            *equals(labels.c.value, str(value)),
        )
    if (entity, key, operator) == (DATASET, "name", "=") and experiment_ids:
        return (
            select(run_datasets.c.run_seq)
            .join(input_datasets, input_datasets.c.seq == run_datasets.c.dataset_seq)
            .where(
                input_datasets.c.experiment_id.in_(experiment_ids),
                input_datasets.c.name == value,
            )
        )
    column = _TEXTS.get(key) if entity == ATTRIBUTE else _COLUMNS_OF_TAGS.get(key)
    if operator == "=" and (column is runs.c.parent_id or column is runs.c.id):
        return select(runs.c.seq).where(column == value)
    return None


def order_key(key: str) -> Any:
    """What runs are sorted by that are sorted by this attribute."""
    if key == "status":
        return bytewise(runs.c.status)
    if key == "experiment":
        name = bytewise(experiments.c.name)
        return select(name).where(experiments.c.id == runs.c.experiment_id).scalar_subquery()
    if key == "submit_time":
        return runs.c.seq
    return NUMBERS[key] if key in NUMBERS else bytewise(_TEXTS[key])


def _attribute(key: str, operator: str, value: Value, sqlite: bool) -> ColumnElement[bool]:
    if key == "status":
        return _status(operator, value, sqlite)
    if key == "experiment":
        named = select(experiments.c.id).where(
            experiments.c.workspace_id == runs.c.workspace_id,
            of_text(experiments.c.name, operator, value, sqlite),
        )
        return runs.c.experiment_id.in_(named)
    if key in NUMBERS:
        number = float(str(value)) * (1 if key == "number" else _MICROSECONDS)
        bounded = number if abs(number) < _FAR else math.copysign(_FAR, number)
        return COMPARED[operator](NUMBERS[key], bounded if key == "number" else round(bounded))
    return of_text(_TEXTS[key], operator, value, sqlite)


def _status(operator: str, value: Value, sqlite: bool) -> ColumnElement[bool]:
    """Of Wherry's statuses, or of MLflow's, of which each stands for several."""
    if operator not in ("=", "!=", "IN", "NOT IN"):
        return of_text(runs.c.status, operator, value, sqlite)
    wanted = value if isinstance(value, tuple) else (str(value),)
    stored = [each for status in wanted for each in stored_statuses(status)]
    found = runs.c.status.in_(stored)
    return found if operator in ("=", "IN") else not_(found)


def of_text(
    column: ColumnElement[Any], operator: str, value: Any, sqlite: bool
) -> ColumnElement[bool]:
    if operator == "IS NULL":
        return or_(column.is_(None), column == "")
    if operator == "IS NOT NULL":
        return and_(column.is_not(None), column != "")
    if operator == "IN":
        return column.in_(value)
    if operator == "NOT IN":
        return not_(column.in_(value))
    if operator == "ILIKE":
        return column.ilike(value)
    if operator == "LIKE":
        return like(column, _as_glob(str(value)) if sqlite else str(value))
    return COMPARED[operator](column, value)


def _as_glob(pattern: str) -> str:
    """The same pattern in the signs of GLOB."""
    plain = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in pattern)
    return plain.replace("%", "*").replace("_", "?")
