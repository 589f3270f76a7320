"""Models that runs log, with MLflow 3's clients: made, filled, finished, found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wherry.control import logged_models, model_files
from wherry.control.tracked_runs import DEFAULT_ID
from wherry.core.errors import ForbiddenError, UserErrorException
from wherry.core.search import (
    ATTRIBUTE,
    METRIC,
    NUMBER,
    PARAM,
    TAG,
    TEXT,
    Order,
    Vocabulary,
    parse_filter,
    parse_order,
)
from wherry.store import families, model_versions, runs, workspaces
from wherry.store import logged_models as rows
from wherry.store.logged_models import Dataset, MetricOrder

from . import shapes
from .artifacts import folder, inside
from .calls import Call, as_real, endpoint, milliseconds, tags_of
from .runs import known_experiment

_STATUSES = {
    rows.PENDING: "LOGGED_MODEL_PENDING",
    rows.READY: "LOGGED_MODEL_READY",
    rows.FAILED: "LOGGED_MODEL_UPLOAD_FAILED",
}
_STORED = {shown: stored for stored, shown in _STATUSES.items()}
_WORDS = Vocabulary(
    frozenset({ATTRIBUTE, TAG, PARAM, METRIC}),
    {
        "name": TEXT,
        "model_id": TEXT,
        "model_type": TEXT,
        "status": TEXT,
        "source_run_id": TEXT,
        "creation_timestamp": NUMBER,
        "last_updated_timestamp": NUMBER,
    },
    {
        "creation_time": "creation_timestamp",
        "creation_timestamp_ms": "creation_timestamp",
        "last_updated_time": "last_updated_timestamp",
        "last_updated_timestamp_ms": "last_updated_timestamp",
    },
)
_MOST = 1000


@endpoint("POST", "logged-models")
def create(call: Call) -> Mapping[str, Any]:
    """One that a run makes is its own, unless it says that one below made it."""
    own, source = call.caller.run_id, call.maybe("source_run_id") or None
    if own and source:
        _check_reach(call, own, source)
    fields = {
        "name": call.maybe("name"),
        "model_type": call.maybe("model_type"),
        "source_run_id": source or own,
        "tags": call.pairs("tags"),
        "params": call.pairs("params"),
    }
    experiment_id = call.maybe("experiment_id") or DEFAULT_ID
    made = logged_models.create(call.plane, call.workspace, experiment_id, fields)
    return _shown(call, made)


@endpoint("POST", "logged-models/search")
def search(call: Call) -> Mapping[str, Any]:
    with call.plane.database.read() as connection:
        wanted = rows.Search(
            call.workspace.id,
            [known_experiment(call, connection, str(each)) for each in _experiments(call)],
            parse_filter(call.maybe("filter"), _WORDS),
            [_order(each) for each in call.several("order_by")],
            [_dataset(each) for each in call.several("datasets")],
        )
        limit = call.number("max_results", 100, 1, _MOST)
        found, following = rows.page(connection, wanted, limit, call.maybe("page_token"))
        models = shown(call, connection, found)
    return {"models": models, **({"next_page_token": following} if following else {})}


@endpoint("GET", "logged-models/{model_id}")
def get(call: Call) -> Mapping[str, Any]:
    gone = str(call.given.get("allow_deleted", "")).lower() == "true"
    return _shown(call, call.parts["model_id"], gone=gone)


@endpoint("PATCH", "logged-models/{model_id}")
def finalize(call: Call) -> Mapping[str, Any]:
    status = call.text("status")
    if status not in _STORED:
        raise UserErrorException(f"status is {status!r}; it is one of {', '.join(_STORED)}")
    model_id = _own(call)
    logged_models.finish(call.plane, call.workspace, model_id, _STORED[status])
    return _shown(call, model_id)


@endpoint("DELETE", "logged-models/{model_id}")
def delete(call: Call) -> Mapping[str, Any]:
    logged_models.remove(call.plane, call.workspace, _own(call))
    return {}


@endpoint("POST", "logged-models/{model_id}/params")
def log_params(call: Call) -> Mapping[str, Any]:
    logged_models.add_params(call.plane, call.workspace, _own(call), call.pairs("params"))
    return {}


@endpoint("PATCH", "logged-models/{model_id}/tags")
def set_tags(call: Call) -> Mapping[str, Any]:
    model_id = _own(call)
    logged_models.set_tags(call.plane, call.workspace, model_id, call.pairs("tags"))
    return _shown(call, model_id)


@endpoint("DELETE", "logged-models/{model_id}/tags/{key}")
def delete_tag(call: Call) -> Mapping[str, Any]:
    logged_models.remove_tag(call.plane, call.workspace, _own(call), call.parts["key"])
    return {}


@endpoint("GET", "logged-models/{model_id}/artifacts/directories")
def list_artifacts(call: Call) -> Mapping[str, Any]:
    model_id = call.parts["model_id"]
    below = inside(call.maybe("artifact_directory_path"))
    root = _shown(call, model_id)["model"]["info"]["artifact_uri"]
    listed = folder(model_files.every(call.plane, model_id), below)
    with_path = [{**each, "path": f"{below}/{each['path']}".strip("/")} for each in listed]
    return {"root_uri": root, "files": with_path}


def shown(call: Call, connection: Any, found: Sequence[Any]) -> list[dict[str, Any]]:
    measured = rows.metrics(connection, [row.seq for row in found])
    versions = model_versions.of_logged_models(connection, [row.id for row in found])
    roots = {
        experiment_id: shapes.location(experiment_id, known.tags if known else {})
        for experiment_id in {row.experiment_id for row in found}
        for known in [workspaces.experiment_by_id(connection, call.workspace, experiment_id)]
    }
    return [
        {
            "info": {
                **_info(row, roots[row.experiment_id]),
                "registrations": [
                    {"name": each.name, "version": str(each.version)}
                    for each in versions.get(row.id, [])
                ],
            },
            "data": {
                "params": tags_of(row.params),
                "metrics": [_metric(row.id, each) for each in measured[row.seq]],
            },
        }
        for row in found
    ]


def check_own(call: Call, model_id: str) -> Any:
    """The model's row, if this caller may change it: a run may those of itself and below it."""
    with call.plane.database.read() as connection:
        row = rows.get(connection, call.workspace, model_id)
    own = call.caller.run_id
    if own:
        _check_reach(call, own, row.source_run_id or "")
    return row


def _own(call: Call) -> str:
    return str(check_own(call, call.parts["model_id"]).id)


def _check_reach(call: Call, own: str, run_id: str) -> None:
    with call.plane.database.read() as connection:
        known = runs.find(connection, run_id)
        if known is None or not families.descends_from(connection, run_id, own):
            raise ForbiddenError(f"the token of run {own} does not reach models of other runs")


def _shown(call: Call, model_id: str, *, gone: bool = False) -> dict[str, Any]:
    with call.plane.database.read() as connection:
        row = rows.get(connection, call.workspace, model_id, gone=gone)
        return {"model": shown(call, connection, [row])[0]}


def _info(row: Any, root: str) -> dict[str, Any]:
    return {
        "model_id": row.id,
        "experiment_id": row.experiment_id,
        "name": row.name,
        "creation_timestamp_ms": milliseconds(row.created_at),
        "last_updated_timestamp_ms": milliseconds(row.modified_at),
        "artifact_uri": f"{root}/models/{row.id}/artifacts",
        "status": _STATUSES[row.status],
        "model_type": row.model_type,
        **({"source_run_id": row.source_run_id} if row.source_run_id else {}),
        "tags": tags_of(row.tags),
    }


def _metric(model_id: str, row: Any) -> dict[str, Any]:
    on = {"dataset_name": row.dataset_name, "dataset_digest": row.dataset_digest}
    return {
        "key": row.name,
        "value": as_real(float("nan") if row.value is None else row.value),
        "timestamp": row.at,
        "step": row.step,
        "model_id": model_id,
        "run_id": row.run_id,
        **{name: value for name, value in on.items() if value},
    }


def _experiments(call: Call) -> list[Any]:
    wanted = call.several("experiment_ids")
    if not wanted:
        raise UserErrorException("Missing value for required parameter 'experiment_ids'.")
    return wanted


def _dataset(given: Any) -> Dataset:
    if not isinstance(given, Mapping) or not given.get("dataset_name"):
        raise UserErrorException("`dataset_name` in the `datasets` clause must be specified.")
    return Dataset(str(given["dataset_name"]), str(given.get("dataset_digest") or "") or None)


def _order(given: Any) -> Order | MetricOrder:
    if not isinstance(given, Mapping) or not isinstance(given.get("field_name"), str):
        raise UserErrorException("Missing value for required parameter 'field_name'.")
    found = parse_order(given["field_name"], _WORDS)
    descending = given.get("ascending") is False
    if found.entity == METRIC:
        name, digest = given.get("dataset_name"), given.get("dataset_digest")
        return MetricOrder(found.key, descending, Dataset(name, digest))
    if found.entity != ATTRIBUTE:
        raise UserErrorException(
            f"Invalid order by field name: {given['field_name']}. Only metrics are supported."
        )
    return Order(found.entity, found.key, descending)
