"""Models that runs log, as MLflow's client drives them: made, filled, finished."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.records import Workspace
from wherry.core.text import clean
from wherry.store import logged_models
from wherry.store.logged_models import FAILED, PENDING, READY

from . import tracked_runs
from .plane import Plane
from .tracked_runs import checked_labels

_FORBIDDEN = ("/", ":", ".", "%", '"', "'")
_MAX_NAME = 500


def create(
    plane: Plane, workspace: Workspace, experiment_id: str, fields: Mapping[str, Any]
) -> str:
    """The id of a new one. ``fields`` are ``name``, ``model_type``, ``source_run_id``, ``tags``
    and ``params``.
    """
    home = tracked_runs.experiment(plane, workspace, experiment_id)
    if home.archived_at is not None:
        raise UserErrorException(
            f"The experiment {home.id} must be in the 'active' state. Current state is deleted."
        )
    model_id = f"m-{uuid.uuid4().hex}"
    now = moment(plane)
    row = {
        "id": model_id,
        "workspace_id": workspace.id,
        "experiment_id": home.id,
        "name": _name(fields.get("name"), model_id),
        "model_type": clean(fields.get("model_type") or "", _MAX_NAME),
        "source_run_id": fields.get("source_run_id"),
        "status": PENDING,
        "tags": checked_labels(fields.get("tags") or {}),
        "params": checked_labels(fields.get("params") or {}),
        "created_at": now,
        "modified_at": now,
    }
    with plane.write() as connection:
        logged_models.add(connection, row)
    return model_id


def finish(plane: Plane, workspace: Workspace, model_id: str, status: str) -> None:
    if status not in (PENDING, READY, FAILED):
        raise UserErrorException(f"{status!r} is not a status of a logged model")
    _change(plane, workspace, model_id, lambda row: {"status": status})


def add_params(
    plane: Plane, workspace: Workspace, model_id: str, params: Mapping[str, str]
) -> None:
    """Once set, they stay."""

    def added(row: Any) -> dict[str, Any]:
        for key, value in params.items():
            if row.params.get(key, value) != value:
                raise UserErrorException(
                    f"Changing param values is not allowed. Parameter {key!r} of model {model_id} "
                    f"is {row.params[key]!r} already"
                )
        return {"params": {**row.params, **checked_labels(params)}}

    _change(plane, workspace, model_id, added)


def set_tags(plane: Plane, workspace: Workspace, model_id: str, tags: Mapping[str, str]) -> None:
    _change(plane, workspace, model_id, lambda row: {"tags": {**row.tags, **checked_labels(tags)}})


def remove_tag(plane: Plane, workspace: Workspace, model_id: str, key: str) -> None:
    def left(row: Any) -> dict[str, Any]:
        if key not in row.tags:
            raise NotFoundError(f"No tag with key {key!r} found for model with ID {model_id!r}.")
        return {"tags": {name: value for name, value in row.tags.items() if name != key}}

    _change(plane, workspace, model_id, left)


def remove(plane: Plane, workspace: Workspace, model_id: str) -> None:
    """It is not found any more; versions that were registered from it stay."""
    _change(plane, workspace, model_id, lambda row: {"deleted_at": moment(plane)})


def moment(plane: Plane) -> datetime:
    """Now, to the millisecond: searches compare it with what was shown."""
    now = plane.now()
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _change(
    plane: Plane, workspace: Workspace, model_id: str, changes: Callable[[Any], Mapping[str, Any]]
) -> None:
    with plane.write() as connection:
        row = logged_models.get(connection, workspace, model_id, lock=True)
        logged_models.change(connection, row, {"modified_at": moment(plane), **changes(row)})


def _name(given: str | None, model_id: str) -> str:
    if given is None:
        return f"model-{model_id[2:10]}"
    if not given or len(given) > _MAX_NAME or any(sign in given for sign in _FORBIDDEN):
        raise UserErrorException(
            f"Invalid model name ({given!r}) provided. Model name must be a non-empty string of "
            f"at most {_MAX_NAME} letters and cannot contain the following characters: "
            f"{_FORBIDDEN}"
        )
    return clean(given)
