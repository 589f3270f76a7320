"""What a run took in and what it gave: datasets, models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wherry.control import run_records
from wherry.core.errors import UserErrorException
from wherry.core.text import clean
from wherry.store import run_inputs
from wherry.store.run_inputs import Dataset

from .calls import Call, endpoint, whole
from .runs import known_experiment

HISTORY = "mlflow.log-model.history"
_EXPERIMENTS, _SUMMARIES = 20, 1000
_LENGTHS = {"name": 500, "digest": 255}


@endpoint("POST", "runs/log-inputs")
def log_inputs(call: Call) -> Mapping[str, Any]:
    row = call.run(write=True)
    models = {_model_id(each): 0 for each in call.several("models")}
    datasets = [_dataset(each) for each in call.several("datasets")]
    run_records.took(call.plane, row.id, datasets, models)
    return {}


@endpoint("POST", "experiments/search-datasets")
def search_datasets(call: Call) -> Mapping[str, Any]:
    wanted = call.several("experiment_ids")
    if not wanted:
        raise UserErrorException("SearchDatasets request must specify at least one experiment_id.")
    if len(wanted) > _EXPERIMENTS:
        raise UserErrorException(
            f"SearchDatasets request cannot specify more than {_EXPERIMENTS} experiment_ids."
        )
    with call.plane.database.read() as connection:
        ids = [known_experiment(call, connection, str(each)) for each in wanted]
        found = run_inputs.summaries(connection, call.workspace.id, ids, _SUMMARIES)
    return {
        "dataset_summaries": [
            {
                "experiment_id": row.experiment_id,
                "name": row.name,
                "digest": row.digest,
                **({"context": row.context} if row.context else {}),
            }
            for row in found
        ]
    }


@endpoint("POST", "runs/outputs")
def log_outputs(call: Call) -> Mapping[str, Any]:
    row = call.run(write=True)
    given = call.several("models")
    models = {_model_id(each): whole("step", each.get("step") or 0) for each in given}
    run_records.gave(call.plane, row.id, models)
    return {}


@endpoint("POST", "runs/log-model")
def log_model(call: Call) -> Mapping[str, Any]:
    """Clients before MLflow 3 tell so of a model among the run's artifacts."""
    row = call.run(write=True)
    try:
        model = json.loads(call.text("model_json"))
    except (ValueError, RecursionError):
        raise UserErrorException("Malformed model info: model_json is not JSON.") from None
    if not isinstance(model, dict) or not {"artifact_path", "flavors", "run_id"} <= model.keys():
        raise UserErrorException(
            "Model json is missing mandatory fields: artifact_path, flavors and run_id"
        )
    run_records.append_to_tag(call.plane, row.id, HISTORY, model)
    return {}


def _model_id(given: Any) -> str:
    if not isinstance(given, Mapping) or not isinstance(given.get("model_id"), str):
        raise UserErrorException("Missing value for required parameter 'model_id'.")
    return str(given["model_id"])


def _dataset(given: Any) -> tuple[Dataset, dict[str, str]]:
    told = given.get("dataset") if isinstance(given, Mapping) else None
    if not isinstance(told, Mapping):
        raise UserErrorException("Dataset input must have a dataset associated with it.")
    for name in ("name", "digest", "source_type", "source"):
        value = told.get(name)
        if not isinstance(value, str) or not value:
            raise UserErrorException(f"Missing value for required parameter {name!r}.")
        if len(value) > _LENGTHS.get(name, len(value)):
            raise UserErrorException(
                f"the {name} of a dataset has at most {_LENGTHS[name]} letters"
            )
    texts = {name: _text(told.get(name)) for name in Dataset._fields}
    tags = {
        clean(str(each.get("key"))): clean(str(each.get("value", "")))
        for each in given.get("tags") or []
        if isinstance(each, Mapping)
    }
    return Dataset(**texts), tags  # type: ignore[arg-type]


def _text(value: Any) -> str | None:
    return None if value is None else clean(str(value))
