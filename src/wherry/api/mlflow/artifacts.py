"""Files of runs and models, as MLflow's artifacts: listed, streamed up and down, removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wherry.api.deps import with_body
from wherry.api.ranges import read_range
from wherry.control import files, model_files
from wherry.control.model_sources import MODELS, VERSIONS
from wherry.core.errors import ForbiddenError, NotFoundError, UserErrorException
from wherry.core.records import RunFile
from wherry.store import families, logged_models, model_versions

from . import shapes
from .calls import Call, endpoint
from .unserved import UnservedError

PREFIX = "api/2.0/mlflow-artifacts/"
_ARTIFACTS = PREFIX + "artifacts"
_FILE_OF_MODEL = re.compile(r"ajax-api/2\.0/mlflow/logged-models/([^/]+)/artifacts/files")
# By these words a client knows that it may send the file whole.
_NO_PARTS = "Multipart upload is not supported for the current artifact repository"


@endpoint("GET", "artifacts/list")
def list_of_run(call: Call) -> Mapping[str, Any]:
    row = call.run()
    below = inside(call.maybe("path"))
    listed = folder(files.every(call.plane, row.id), below)
    with_path = [{**each, "path": f"{below}/{each['path']}".strip("/")} for each in listed]
    return {
        "root_uri": shapes.info(row, f"mlflow-artifacts:/{row.experiment_id}")["artifact_uri"],
        "files": with_path,
    }


def inside(path: str | None) -> str:
    """A path that leads nowhere else."""
    if ".." in (path or "").split("/"):
        raise UserErrorException("Invalid path")
    return (path or "").strip("/")


def as_place(path: str, asked: Mapping[str, str]) -> str:
    """The address of a file as browsers ask for it, by its place; any other as it is."""
    if path == "get-artifact":
        run_id = asked.get("run_id") or asked.get("run_uuid", "")
        return f"{_ARTIFACTS}/-/{run_id}/artifacts/{inside(asked.get('path'))}"
    model = _FILE_OF_MODEL.fullmatch(path)
    if model:
        file = asked.get("artifact_file_path", "")
        return f"{_ARTIFACTS}/-/{MODELS}/{model[1]}/artifacts/{file}"
    return path


async def answer(request: Request, bare: Call, path: str) -> Response:
    """Whatever is below ``mlflow-artifacts``."""
    if path == _ARTIFACTS and request.method == "GET":
        wanted = request.query_params.get("path", "")
        return JSONResponse(await run_in_threadpool(_listed, bare, wanted))
    if not path.startswith(_ARTIFACTS + "/"):
        raise UnservedError(_NO_PARTS)
    place = path.removeprefix(_ARTIFACTS + "/")
    if request.method == "PUT":
        return await _put(request, bare, place)
    if request.method in ("GET", "HEAD"):
        return await run_in_threadpool(_get, request, bare, place)
    if request.method == "DELETE":
        return await run_in_threadpool(_delete, bare, place)
    raise NotFoundError(f"there is nothing at {path} for {request.method}")


class _Place(NamedTuple):
    """Whose file it is, and its path there."""

    owner: str
    path: str
    of_run: bool


async def _put(request: Request, bare: Call, place: str) -> Response:
    at = await run_in_threadpool(_of, bare, place, write=True)
    put = files.put if at.of_run else model_files.put
    store = partial(put, bare.plane, at.owner, at.path)
    await with_body(request, bare.plane.settings.max_file_bytes, store)
    return JSONResponse({})


def _get(request: Request, bare: Call, place: str) -> Response:
    at = _of(bare, place)
    plane = bare.plane
    find = files.find if at.of_run else model_files.get
    stored = find(plane, at.owner, at.path)
    if stored is None:
        with plane.database.read() as connection:
            key = files.log_of(plane, connection, at.owner, at.path)
        return Response(plane.logs.read(key, 0, plane.logs.size(key)))
    return read_range(plane.blobs.open(stored.digest), stored.size, request.headers.get("range"))


def _delete(bare: Call, place: str) -> Response:
    at = _of(bare, place, write=True)
    remove = files.remove_below if at.of_run else model_files.remove_below
    remove(bare.plane, at.owner, at.path)
    return JSONResponse({})


def _listed(bare: Call, place: str) -> Mapping[str, Any]:
    at = _of(bare, place)
    every = files.every if at.of_run else model_files.every
    return {"files": folder(every(bare.plane, at.owner), at.path)}


def _of(bare: Call, place: str, *, write: bool = False) -> _Place:
    """``EXPERIMENT/RUN/artifacts/PATH``, ``EXPERIMENT/models/MODEL/artifacts/PATH`` or
    ``versions/VERSION/artifacts/PATH``.
    """
    parts = place.strip("/").split("/")
    if len(parts) > 3 and parts[1] == MODELS and parts[3] == "artifacts":
        _check_model(bare, parts[2], write=write)
        return _Place(parts[2], "/".join(parts[4:]), of_run=False)
    if len(parts) < 3 or parts[2] != "artifacts":
        raise NotFoundError(
            f"{place!r} is not a place for artifacts",
            hint="artifacts are at EXPERIMENT_ID/RUN_ID/artifacts/PATH",
        )
    path = "/".join(parts[3:])
    if parts[0] == VERSIONS:
        _check_version(bare, parts[1], write=write)
        return _Place(parts[1], path, of_run=False)
    Call(bare.plane, bare.caller, bare.workspace_name, {"run_id": parts[1]}).run(write=write)
    return _Place(parts[1], path, of_run=True)


def _check_model(bare: Call, model_id: str, *, write: bool) -> None:
    own = bare.caller.run_id
    with bare.plane.database.read() as connection:
        row = logged_models.get(connection, bare.workspace, model_id, gone=not write)
        source = row.source_run_id or ""
        if write and own and not families.descends_from(connection, source, own):
            raise ForbiddenError(f"the token of run {own} does not reach model {model_id}")


def _check_version(bare: Call, version_id: str, *, write: bool) -> None:
    with bare.plane.database.read() as connection:
        found = model_versions.find_by_id(connection, bare.workspace, version_id)
    if found is None:
        raise NotFoundError(f"there is no version of a model with the id {version_id!r}")
    if write:
        raise ForbiddenError(
            f"the files of version {found.version} of model {found.name!r} do not change",
            hint="register a new version",
        )


def folder(found: list[RunFile], below: str) -> list[dict[str, Any]]:
    """What lies in one folder: its files, and the folders in it."""
    prefix = f"{below.strip('/')}/" if below.strip("/") else ""
    listed: dict[str, dict[str, Any]] = {}
    for each in found:
        if each.path.startswith(prefix):
            name, slash, _ = each.path[len(prefix) :].partition("/")
            if slash:
                listed[name] = {"path": name, "is_dir": True}
            else:
                listed[name] = {"path": name, "is_dir": False, "file_size": each.size}
    return [listed[name] for name in sorted(listed)]
