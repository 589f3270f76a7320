"""Experiments and runs in the form that MLflow's clients read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from wherry.control.tracked_runs import NAME, NOTE, PARENT, USER
from wherry.core.mlflow import status_of
from wherry.core.records import Experiment
from wherry.store import metrics, run_inputs, run_labels
from wherry.store.run_inputs import INPUT, OUTPUT

from .calls import as_real, milliseconds, tags_of

LOCATION = "mlflow.artifactLocation"
ACTIVE, DELETED = "active", "deleted"


def experiment(record: Experiment) -> dict[str, Any]:
    shown = {key: value for key, value in record.tags.items() if key != LOCATION}
    if record.description and NOTE not in shown:
        shown[NOTE] = record.description
    created = milliseconds(record.created_at)
    return {
        "experiment_id": record.id,
        "name": record.name,
        "artifact_location": location(record.id, record.tags),
        "lifecycle_stage": ACTIVE if record.archived_at is None else DELETED,
        "creation_time": created,
        "last_update_time": milliseconds(record.archived_at) or created,
        "tags": tags_of(shown),
    }


def location(experiment_id: str, tags: Mapping[str, str]) -> str:
    return tags.get(LOCATION) or f"mlflow-artifacts:/{experiment_id}"


def info(row: Any, root: str) -> dict[str, Any]:
    return {
        "run_id": row.id,
        "run_uuid": row.id,
        "run_name": row.display_name or row.id,
        "experiment_id": row.experiment_id,
        "user_id": row.submitted_by,
        "status": status_of(row.status),
        "start_time": milliseconds(row.started_at or row.submitted_at),
        **({} if row.ended_at is None else {"end_time": milliseconds(row.ended_at)}),
        "artifact_uri": f"{root}/{row.id}/artifacts",
        "lifecycle_stage": ACTIVE if row.archived_at is None else DELETED,
    }


def runs(
    connection: Connection, rows: Sequence[Any], roots: Mapping[str, str]
) -> list[dict[str, Any]]:
    """With what they logged. ``roots`` are the places of artifacts, by experiment."""
    seqs = [row.seq for row in rows]
    lasts = metrics.last_values(connection, seqs)
    labels = run_labels.of(connection, seqs)
    models = run_inputs.models(connection, seqs)
    datasets = run_inputs.datasets(connection, seqs)
    return [
        {
            "info": info(row, roots[row.experiment_id]),
            "data": {
                "metrics": _metrics(lasts[row.seq]),
                "params": tags_of(labels.get((row.seq, run_labels.PARAM), {})),
                "tags": tags_of(_tags(row, labels.get((row.seq, run_labels.TAG), {}))),
            },
            **_inputs_and_outputs(row.seq, models, datasets),
        }
        for row in rows
    ]


def _tags(row: Any, stored: Mapping[str, str]) -> dict[str, str]:
    told = {NAME: row.display_name or row.id, USER: row.submitted_by}
    if row.description:
        told[NOTE] = row.description
    if row.parent_id:
        told[PARENT] = row.parent_id
    return {**told, **stored}


def _metrics(lasts: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name, row in lasts.items():
        value = metrics.last_value(row)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append(
                {
                    "key": name,
                    "value": as_real(
                        row.last_value if row.last_value is not None else float("nan")
                    ),
                    "timestamp": row.last_at // 1000,
                    "step": row.last_step,
                }
            )
    return found


def _inputs_and_outputs(
    seq: int, models: Mapping[tuple[int, str], list[Any]], datasets: Mapping[int, list[Any]]
) -> dict[str, Any]:
    return {
        "inputs": {
            "dataset_inputs": [_dataset(row) for row in datasets.get(seq, [])],
            "model_inputs": [{"model_id": row.model_id} for row in models.get((seq, INPUT), [])],
        },
        "outputs": {
            "model_outputs": [
                {"model_id": row.model_id, "step": row.step}
                for row in models.get((seq, OUTPUT), [])
            ],
        },
    }


def _dataset(row: Any) -> dict[str, Any]:
    told = {"schema": row.schema, "profile": row.profile}
    return {
        "tags": tags_of(row.tags),
        "dataset": {
            "name": row.name,
            "digest": row.digest,
            "source_type": row.source_type,
            "source": row.source,
            **{name: value for name, value in told.items() if value is not None},
        },
    }
