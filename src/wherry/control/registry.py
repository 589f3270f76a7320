"""The registry: models by name, their versions in numbers that are given once."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.records import Workspace
from wherry.core.text import clean
from wherry.store import files, logged_models, model_versions, registered_models
from wherry.store.model_versions import ARCHIVED, NO_STAGE, PRODUCTION, READY, STAGES, STAGING

from . import model_files, model_sources
from .logged_models import moment
from .plane import Plane
from .tracked_runs import checked_labels

LATEST = "latest"
_VERSIONS = "mlflow.modelVersions"
_MAX_NAME = 255
_ALIAS = re.compile(r"[\w-]{1,255}\Z")
_LIKE_A_VERSION = re.compile(r"[vV]\d+\Z")


def create(
    plane: Plane,
    workspace: Workspace,
    name: str,
    description: str,
    tags: Mapping[str, str],
    who: str,
) -> None:
    now = moment(plane)
    fields = {
        "name": check_name(name),
        "description": clean(description),
        "tags": checked_labels(tags),
        "created_by": clean(who, _MAX_NAME),
        "created_at": now,
        "modified_at": now,
    }
    with plane.write() as connection:
        registered_models.add(connection, workspace, fields)


def change(plane: Plane, workspace: Workspace, name: str, changes: Mapping[str, Any]) -> None:
    """``name``, ``description``, or ``tags`` that come to those it has."""
    with plane.write() as connection:
        row = registered_models.get(connection, workspace, name, lock=True)
        values: dict[str, Any] = {"modified_at": moment(plane)}
        if "name" in changes:
            values["name"] = check_name(changes["name"])
        if "description" in changes:
            values["description"] = clean(changes["description"])
        if "tags" in changes:
            values["tags"] = {**row.tags, **checked_labels(changes["tags"])}
        registered_models.change(connection, row, values)


def remove_tag(plane: Plane, workspace: Workspace, name: str, key: str) -> None:
    with plane.write() as connection:
        row = registered_models.get(connection, workspace, name, lock=True)
        registered_models.change(connection, row, {"tags": _without(row.tags, key)})


def remove(plane: Plane, workspace: Workspace, name: str) -> None:
    """With all its versions and their files."""
    with plane.write() as connection:
        row = registered_models.get(connection, workspace, name, lock=True)
        files.remove(connection, model_versions.remove_of(connection, [row.seq]))
        registered_models.remove(connection, [row.seq])


def register(
    plane: Plane, workspace: Workspace, name: str, fields: Mapping[str, Any], who: str
) -> int:
    """The number of a new version. ``fields`` are ``source``, ``run_id``, ``run_link``,
    ``description``, ``tags`` and ``logged_model_id``.

    Files that lie here are the version's own from now on, whatever becomes of their source.
    """
    version_id = f"v-{uuid.uuid4().hex}"
    with plane.write() as connection:
        model = registered_models.get(connection, workspace, name, lock=True)
        now = moment(plane)  # later than that of the version before
        found = model_sources.find(connection, workspace, fields["source"])
        logged = _logged(connection, workspace, fields, found)
        copied = found.holder and model_files.copy(connection, found.holder, found.path, version_id)
        number = registered_models.next_version(connection, model, now)
        row = {
            "id": version_id,
            "version": number,
            "description": clean(fields.get("description") or ""),
            "stage": NO_STAGE,
            "status": READY,
            "source": clean(fields["source"]),
            "has_files": bool(copied),
            "run_id": fields.get("run_id") or (logged.source_run_id if logged else found.run_id),
            "run_link": fields.get("run_link"),
            "logged_model_id": logged.id if logged else None,
            "tags": checked_labels(fields.get("tags") or {}),
            "properties": {},
            "created_by": clean(who, _MAX_NAME),
            "created_at": now,
            "modified_at": now,
        }
        model_versions.add(connection, model, row)
        if fields.get("logged_model_id"):
            _note(connection, logged, name, number)
    return number


def change_version(
    plane: Plane, workspace: Workspace, name: str, version: int, changes: Mapping[str, Any]
) -> None:
    """``description``, or ``tags`` that come to those it has."""
    with plane.write() as connection:
        row = _locked(connection, workspace, name, version)
        values: dict[str, Any] = {"modified_at": moment(plane)}
        if "description" in changes:
            values["description"] = clean(changes["description"])
        if "tags" in changes:
            values["tags"] = {**row.tags, **checked_labels(changes["tags"])}
        model_versions.change(connection, [row.seq], values)


def remove_version_tag(
    plane: Plane, workspace: Workspace, name: str, version: int, key: str
) -> None:
    with plane.write() as connection:
        row = _locked(connection, workspace, name, version)
        model_versions.change(connection, [row.seq], {"tags": _without(row.tags, key)})


def to_stage(
    plane: Plane, workspace: Workspace, name: str, version: int, stage: str, *, alone: bool
) -> None:
    """With ``alone`` what was in that stage goes to the archive."""
    wanted = check_stage(stage)
    if alone and wanted not in (STAGING, PRODUCTION):
        raise UserErrorException(
            "Model version transition cannot archive existing model versions because "
            f"{stage!r} is not an Active stage. Valid stages are {[STAGING, PRODUCTION]}"
        )
    now = moment(plane)
    with plane.write() as connection:
        row = _locked(connection, workspace, name, version)
        model = registered_models.get(connection, workspace, name)
        if alone:
            others = model_versions.in_stage(connection, model, wanted)
            archived = {"stage": ARCHIVED, "modified_at": now}
            model_versions.change(connection, others, archived)
        model_versions.change(connection, [row.seq], {"stage": wanted, "modified_at": now})
        registered_models.change(connection, model, {"modified_at": now})


def remove_version(plane: Plane, workspace: Workspace, name: str, version: int) -> None:
    with plane.write() as connection:
        row = _locked(connection, workspace, name, version)
        model = registered_models.get(connection, workspace, name)
        model_versions.remove(connection, row)
        files.remove(connection, [row.id])
        registered_models.change(connection, model, {"modified_at": moment(plane)})


def set_alias(plane: Plane, workspace: Workspace, name: str, alias: str, version: int) -> None:
    _check_alias(alias)
    if alias.lower() == LATEST or _LIKE_A_VERSION.match(alias):
        raise UserErrorException(f"the alias {alias!r} is reserved: it always has a meaning")
    with plane.write() as connection:
        _locked(connection, workspace, name, version)
        model = registered_models.get(connection, workspace, name)
        registered_models.set_alias(connection, model, alias, version)


def remove_alias(plane: Plane, workspace: Workspace, name: str, alias: str) -> None:
    with plane.write() as connection:
        model = registered_models.get(connection, workspace, name, lock=True)
        registered_models.remove_alias(connection, model, _check_alias(alias))


def by_alias(connection: Connection, workspace: Workspace, name: str, alias: str) -> Any:
    """``latest`` is the youngest version."""
    model = registered_models.get(connection, workspace, name)
    if alias.lower() == LATEST:
        youngest = model_versions.latest(connection, [model.seq])[model.seq]
        if not youngest:
            raise NotFoundError(f"Latest version not found for model {name}.")
        return youngest[-1]
    version = registered_models.aliases(connection, [model.seq])[model.seq].get(alias)
    if version is None:
        raise UserErrorException(f"Registered model alias {alias} not found.")
    return model_versions.get(connection, workspace, name, version)


def check_stage(stage: str) -> str:
    for known in STAGES:
        if known.lower() == stage.lower():
            return known
    raise UserErrorException(
        f"Invalid Model Version stage: {stage}. Value must be one of {', '.join(STAGES)}."
    )


def check_name(name: str) -> str:
    if "/" in name or ":" in name:
        raise UserErrorException(f"Invalid model name '{name}'. Names cannot contain '/' or ':'.")
    if not name.strip() or name in (".", "..") or len(name) > _MAX_NAME or clean(name) != name:
        raise UserErrorException(
            f"Invalid value {name[:50]!r} for parameter 'name': a model's name has 1 to "
            f"{_MAX_NAME} letters, and no NUL among them"
        )
    return name


def _locked(connection: Connection, workspace: Workspace, name: str, version: int) -> Any:
    """The version; who else would change one of this model waits."""
    registered_models.get(connection, workspace, name, lock=True)
    return model_versions.get(connection, workspace, name, version)


def _logged(
    connection: Connection,
    workspace: Workspace,
    fields: Mapping[str, Any],
    found: model_sources.Source,
) -> Any:
    """The logged model that it is registered from, if it is from one."""
    if fields.get("logged_model_id"):
        return logged_models.get(
            connection, workspace, fields["logged_model_id"], lock=True, gone=True
        )
    if found.logged_model_id:
        return logged_models.find(connection, workspace.id, found.logged_model_id)
    return None


def _note(connection: Connection, logged: Any, name: str, number: int) -> None:
    """As MLflow's page reads of a logged model what it is registered as."""
    versions = json.loads(logged.tags.get(_VERSIONS, "[]"))
    tags = {_VERSIONS: json.dumps([*versions, {"name": name, "version": number}])}
    logged_models.change(connection, logged, {"tags": {**logged.tags, **tags}})


def _check_alias(alias: str) -> str:
    if not _ALIAS.match(alias):
        raise UserErrorException(
            f"Invalid alias name: '{alias}'.",
            hint="it has letters, digits, '_' and '-', at most 255",
        )
    return alias


def _without(tags: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in tags.items() if name != key}
