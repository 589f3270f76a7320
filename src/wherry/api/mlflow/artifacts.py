"""A run's files, as MLflow's artifacts: listed, streamed up and down, removed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wherry.api.deps import with_body
from wherry.api.ranges import read_range
from wherry.control import files
from wherry.core.errors import NotFoundError
from wherry.core.records import RunFile

from . import shapes
from .calls import Call, endpoint
from .unserved import UnservedError

PREFIX = "api/2.0/mlflow-artifacts/"
_ARTIFACTS = PREFIX + "artifacts"


@endpoint("GET", "artifacts/list")
def list_of_run(call: Call) -> Mapping[str, Any]:
    row = call.run()
    below = (call.maybe("path") or "").strip("/")
    listed = _folder(files.every(call.plane, row.id), below)
    with_path = [{**each, "path": f"{below}/{each['path']}".strip("/")} for each in listed]
    return {
        "root_uri": shapes.info(row, f"mlflow-artifacts:/{row.experiment_id}")["artifact_uri"],
        "files": with_path,
    }


async def answer(request: Request, bare: Call, path: str) -> Response:
    """Whatever is below ``mlflow-artifacts``."""
    if path == _ARTIFACTS and request.method == "GET":
        wanted = request.query_params.get("path", "")
        return JSONResponse(await run_in_threadpool(_listed, bare, wanted))
    if not path.startswith(_ARTIFACTS + "/"):
        raise UnservedError("uploads in parts are not served here: send the file whole")
    place = path.removeprefix(_ARTIFACTS + "/")
    if request.method == "PUT":
        return await _put(request, bare, place)
    if request.method in ("GET", "HEAD"):
        return await run_in_threadpool(_get, request, bare, place)
    if request.method == "DELETE":
        return await run_in_threadpool(_delete, bare, place)
    raise NotFoundError(f"there is nothing at {path} for {request.method}")


async def _put(request: Request, bare: Call, place: str) -> Response:
    call, below = await run_in_threadpool(_of, bare, place, write=True)
    run_id = call.text("run_id")
    store = partial(files.put, bare.plane, run_id, below)
    await with_body(request, bare.plane.settings.max_file_bytes, store)
    return JSONResponse({})


def _get(request: Request, bare: Call, place: str) -> Response:
    call, below = _of(bare, place)
    run_id = call.text("run_id")
    stored = files.find(bare.plane, run_id, below)
    if stored is None:
        with bare.plane.database.read() as connection:
            key = files.log_of(bare.plane, connection, run_id, below)
        return Response(bare.plane.logs.read(key, 0, bare.plane.logs.size(key)))
    file = bare.plane.blobs.open(stored.digest)
    return read_range(file, stored.size, request.headers.get("range"))


def _delete(bare: Call, place: str) -> Response:
    call, below = _of(bare, place, write=True)
    files.remove_below(bare.plane, call.text("run_id"), below)
    return JSONResponse({})


def _listed(bare: Call, place: str) -> Mapping[str, Any]:
    call, below = _of(bare, place)
    return {"files": _folder(files.every(bare.plane, call.text("run_id")), below)}


def _of(bare: Call, place: str, *, write: bool = False) -> tuple[Call, str]:
    """``EXPERIMENT/RUN/artifacts/PATH``: the run, and the path."""
    parts = place.strip("/").split("/", 3)
    if len(parts) < 3 or parts[2] != "artifacts":
        raise NotFoundError(
            f"{place!r} is not a place for artifacts",
            hint="artifacts are at EXPERIMENT_ID/RUN_ID/artifacts/PATH",
        )
    call = Call(bare.plane, bare.caller, bare.workspace, {"run_id": parts[1]})
    call.run(write=write)
    return call, parts[3] if len(parts) > 3 else ""


def _folder(found: list[RunFile], below: str) -> list[dict[str, Any]]:
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
