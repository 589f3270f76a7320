"""Where the files lie that a version of a model is registered from."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection

from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.records import Workspace
from wherry.store import logged_models, model_versions, registered_models, runs

MODELS, VERSIONS = "models", "versions"  # in the places of artifacts


class Source(NamedTuple):
    """``holder`` is a run's, model's or version's id: who has the files, below ``path``. None
    where they lie elsewhere.
    """

    holder: str | None = None
    path: str = ""
    run_id: str | None = None
    logged_model_id: str | None = None


def find(connection: Connection, workspace: Workspace, source: str) -> Source:
    parsed = urlsplit(source)
    path = parsed.path.strip("/")
    if parsed.scheme in ("", "file"):
        raise UserErrorException(
            f"Invalid model version source: '{source}'. A local path is not known to the server",
            hint="log the model into a run, and name it runs:/RUN_ID/PATH",
        )
    if _leads_out(source):
        raise UserErrorException(
            f"Invalid model version source: '{source}'. If supplying a source as an http, https, "
            "or any other uri, its path has no '..' in it"
        )
    if parsed.scheme == "runs":
        run_id, _, below = path.partition("/")
        return _of_run(connection, workspace, run_id, below)
    if parsed.scheme == "models":
        return _of_models(connection, workspace, path)
    if parsed.scheme == "mlflow-artifacts":
        return _of_artifacts(connection, workspace, path)
    return Source()


def _leads_out(source: str) -> bool:
    """Whatever its letters are written as."""
    while (plain := unquote(source)) != source:
        source = plain
    return "\0" in source or ".." in source.replace("\\", "/").split("/")


def copied_from(connection: Connection, workspace: Workspace, source: str) -> Any:
    """The version that ``models:/NAME/VERSION`` names, if it is still there."""
    name, _, version = urlsplit(source).path.strip("/").partition("/")
    if not version.isdecimal():
        return None
    with suppress(NotFoundError):
        return model_versions.get(connection, workspace, name, int(version))
    return None


def _of_models(connection: Connection, workspace: Workspace, path: str) -> Source:
    """``m-...``, ``NAME/VERSION`` or ``NAME@ALIAS``."""
    name, slash, version = path.partition("/")
    if slash:
        if not version.isdecimal():
            raise UserErrorException(f"models:/{path} does not name a version by its number")
        row = model_versions.get(connection, workspace, name, int(version))
    elif "@" in name:
        name, _, alias = name.rpartition("@")
        model = registered_models.get(connection, workspace, name)
        known = registered_models.aliases(connection, [model.seq])[model.seq]
        if alias not in known:
            raise NotFoundError(f"Registered model alias {alias} not found.")
        row = model_versions.get(connection, workspace, name, known[alias])
    else:
        return _of_model(connection, workspace, name, "")
    return Source(row.id if row.has_files else None, "", row.run_id, row.logged_model_id)


def _of_artifacts(connection: Connection, workspace: Workspace, path: str) -> Source:
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == MODELS and parts[3] == "artifacts":
        return _of_model(connection, workspace, parts[2], "/".join(parts[4:]))
    if len(parts) > 2 and parts[2] == "artifacts":
        below = "/".join(parts[3:])
        if parts[0] != VERSIONS:
            return _of_run(connection, workspace, parts[1], below)
        row = model_versions.find_by_id(connection, workspace, parts[1])
        return Source(row.id, below, row.run_id, row.logged_model_id) if row else Source()
    return Source()


def _of_run(connection: Connection, workspace: Workspace, run_id: str, below: str) -> Source:
    row = runs.find(connection, run_id)
    if row is None or row.workspace_id != workspace.id:
        return Source()
    return Source(run_id, below, run_id)


def _of_model(connection: Connection, workspace: Workspace, id: str, below: str) -> Source:
    row = logged_models.find(connection, workspace.id, id)
    if row is None:
        raise NotFoundError(f"Logged model with ID '{id}' not found.")
    return Source(id, below, row.source_run_id, id)
