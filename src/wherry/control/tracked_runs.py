"""Runs as MLflow's client drives them: made, logged into, ended, taken up again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.lifecycle import Decision, ExitRecord, Reason, Status
from wherry.core.metrics import MAX_NAME, Logged
from wherry.core.mlflow import FAILED, FINISHED, KILLED, RUNNING, SCHEDULED
from wherry.core.records import Workspace
from wherry.core.text import clean
from wherry.store import logged_models, metrics, run_labels, runs, workspaces

from .clients import heard
from .plane import Plane
from .settle import finish
from .submit import root_of

DEFAULT, DEFAULT_ID = "Default", "0"
NAME, NOTE, PARENT, USER = (
    "mlflow.runName",
    "mlflow.note.content",
    "mlflow.parentRunId",
    "mlflow.user",
)
_ENDS = {
    FINISHED: (Status.COMPLETED, Reason.SUCCEEDED),
    FAILED: (Status.FAILED, Reason.REPORTED),
    KILLED: (Status.CANCELED, Reason.CANCELED),
}
_MAX_KEY = 255


def experiment(plane: Plane, workspace: Workspace, experiment_id: str) -> Any:
    """The one with the id; MLflow's ``0`` is ``Default``, made when first asked for."""
    if experiment_id != DEFAULT_ID:
        with plane.database.read() as connection:
            found = workspaces.experiment_by_id(connection, workspace, experiment_id)
        if found is None:
            raise NotFoundError(f"No Experiment with id={experiment_id} exists")
        return found
    with plane.database.read() as connection:
        found = workspaces.find_experiment(connection, workspace, DEFAULT)
    if found is not None:
        return found
    with plane.write() as connection:
        return workspaces.ensure_experiment(connection, workspace, DEFAULT, plane.now())


def create(
    plane: Plane, workspace: Workspace, experiment_id: str, fields: Mapping[str, Any], who: str
) -> str:
    """The id of a new run. ``fields`` are ``name``, ``user``, ``started_at``, ``tags`` and the
    run's ``parent_id``.
    """
    tags = dict(fields.get("tags") or {})
    parent_id = tags.pop(PARENT, None) or fields.get("parent_id")
    name = fields.get("name") or tags.pop(NAME, None)
    tags.pop(NAME, None)
    note = tags.pop(NOTE, "")
    user = fields.get("user") or tags.get(USER) or who
    tags.pop(USER, None)
    home = experiment(plane, workspace, experiment_id)
    run_id = uuid.uuid4().hex
    now = plane.now()
    with plane.write() as connection:
        parent = runs.find(connection, parent_id) if parent_id else None
        if parent_id and (parent is None or parent.workspace_id != workspace.id):
            tags[PARENT], parent_id = parent_id, None  # a run of some other server
        number = workspaces.next_number(connection, home)
        row = {
            "id": run_id,
            "workspace_id": workspace.id,
            "experiment_id": home.id,
            "parent_id": parent_id,
            "root_id": root_of(connection, workspace, parent_id) or run_id,
            "number": number,
            "display_name": clean(name or f"run-{number}"),
            "description": clean(note),
            "status": Status.RUNNING.value,
            "submitted_by": clean(str(user), 255),
            "submitted_at": now,
            "started_at": fields.get("started_at") or now,
            "heartbeat_at": now,
        }
        runs.add(connection, row, checked_labels(tags), {})
    return run_id


def update(
    plane: Plane, run_id: str, status: str | None, ended_at: datetime | None, name: str | None
) -> None:
    """The client's word; of a run that a target drives, how it goes on is the target's word."""
    if status not in (None, *_ENDS, RUNNING, SCHEDULED):
        raise UserErrorException(f"{status!r} is not a status")
    with plane.write() as connection:
        row = active(connection, run_id)
        if name:
            runs.update_fields(connection, row, {"display_name": clean(name)})
        if status is not None and row.target is None:
            _move(plane, connection, row, status, ended_at)
        else:
            heard(plane, connection, row)
    plane.changed(run_id)


def log(
    plane: Plane,
    run_id: str,
    points: Sequence[Logged],
    params: Mapping[str, str],
    tags: Mapping[str, str],
    about: Sequence[Mapping[str, Any]] = (),
    *,
    check: Callable[[Connection, Any], None],
) -> None:
    """All of it or nothing. A point that is sent again counts once. ``about`` are those points
    that are about models, as the models are told. ``check`` raises where the caller may not.
    """
    with plane.write() as connection:
        row = runs.find(connection, run_id, lock=True)
        check(connection, row)
        row = _checked_active(row)
        _set_params(connection, row, checked_labels(params))
        set_tags(connection, row, tags)
        if points:
            metrics.append(connection, row, [_named(point) for point in points], once=True)
        if about:
            _tell_models(connection, row, about)
        heard(plane, connection, row)
    plane.changed(run_id)


def set_tags(connection: Connection, row: Any, tags: Mapping[str, str]) -> None:
    """Some of MLflow's have a column of their own."""
    left = dict(tags)
    columns = {NAME: "display_name", NOTE: "description"}
    changes = {columns[key]: clean(left.pop(key)) for key in columns if key in left}
    if changes:
        runs.update_fields(connection, row, changes)
    run_labels.change(connection, row, run_labels.TAG, checked_labels(left))


def remove_tag(plane: Plane, run_id: str, key: str) -> None:
    with plane.write() as connection:
        row = active(connection, run_id)
        if key == NOTE and row.description:
            runs.update_fields(connection, row, {"description": ""})
            return
        present = run_labels.of(connection, [row.seq]).get((row.seq, run_labels.TAG), {})
        if key not in present:
            raise NotFoundError(f"No tag with name: {key} in run with id {run_id}")
        run_labels.change(connection, row, run_labels.TAG, {}, [key])


def archive(plane: Plane, run_id: str, *, archived: bool) -> None:
    with plane.write() as connection:
        row = runs.get(connection, run_id, lock=True)
        if (row.archived_at is not None) != archived:
            now = plane.now() if archived else None
            runs.update_fields(connection, row, {"archived_at": now})
    plane.changed(run_id)


def active(connection: Connection, run_id: str) -> Any:
    return _checked_active(runs.get(connection, run_id, lock=True))


def _checked_active(row: Any) -> Any:
    if row.archived_at is not None:
        raise UserErrorException(
            f"The run {row.id} must be in the 'active' state. Current state is deleted.",
            hint="it is in the archive: restore it first",
        )
    return row


def _move(
    plane: Plane, connection: Connection, row: Any, status: str, ended_at: datetime | None
) -> None:
    present = Status(row.status)
    if status not in _ENDS:
        if present.terminal or present is Status.NOT_RESPONDING:
            runs.move(connection, row, Status.RUNNING, plane.now())
        return
    wanted, reason = _ENDS[status]
    if present is wanted:
        return
    if present.terminal:  # its client thinks better of it
        runs.move(connection, row, Status.RUNNING, plane.now())
        row = runs.get(connection, row.id)
    finish(plane, connection, row, Decision(wanted, reason), exit=ExitRecord())
    if ended_at is not None:  # it may bring runs that ended long ago
        runs.update_fields(connection, row, {"ended_at": ended_at})


def _tell_models(connection: Connection, run: Any, about: Sequence[Mapping[str, Any]]) -> None:
    """Each point has the ``model_id`` it is about."""
    seqs: dict[str, int] = {}
    for model_id in {point["model_id"] for point in about}:
        found = logged_models.find(connection, run.workspace_id, model_id)
        if found is None:
            raise NotFoundError(f"Logged model with ID '{model_id}' not found.")
        seqs[model_id] = found.seq
    rows = [
        {
            **{name: value for name, value in point.items() if name != "model_id"},
            "model_seq": seqs[point["model_id"]],
            "run_id": run.id,
        }
        for point in about
    ]
    logged_models.add_metrics(connection, rows)


def _set_params(connection: Connection, row: Any, params: Mapping[str, str]) -> None:
    try:
        run_labels.change(connection, row, run_labels.PARAM, params)
    except ConflictError as error:
        raise UserErrorException(
            f"Changing param values is not allowed. {error.message}", hint=error.hint
        ) from None


def checked_labels(given: Mapping[str, str]) -> dict[str, str]:
    for key in given:
        if not key or len(key) > _MAX_KEY:
            raise UserErrorException(
                f"the name of a tag or parameter has 1 to {_MAX_KEY} letters; {key[:50]!r}... "
                f"has {len(key)}"
            )
    return {clean(key): clean(str(value)) for key, value in given.items()}


def _named(point: Logged) -> Logged:
    if not point.name or len(point.name.encode()) > MAX_NAME:
        raise UserErrorException(f"the name of a metric has 1 to {MAX_NAME} bytes")
    return point
