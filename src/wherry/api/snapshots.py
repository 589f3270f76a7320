"""Snapshots and blobs over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from wherry.control import snapshots
from wherry.control.plane import Plane

from .bodies import NewSnapshot
from .deps import PlaneDep, get_plane, with_body
from .frames import frames
from .guard import guarded_router
from .lane import brief
from .octets import RAW_BODY, Tar
from .plain_json import PlainJSON
from .reading import described, read_body

router = guarded_router("snapshots")


@router.post(
    "/workspaces/{workspace}/snapshots",
    response_class=PlainJSON,
    openapi_extra=described(NewSnapshot),
)
@brief("POST", "/workspaces/{workspace}/snapshots")
async def register_snapshot(workspace: str, request: Request) -> PlainJSON:
    plane = await get_plane(request)
    body = await read_body(request, NewSnapshot)
    return PlainJSON(await run_in_threadpool(_register, plane, workspace, body))


def _register(plane: Plane, workspace: str, body: NewSnapshot) -> dict[str, Any]:
    fields = body.model_dump(exclude_none=True)
    if body.base is None:
        return snapshots.register(plane, workspace, fields["files"])
    return snapshots.register_changes(plane, workspace, body.base, fields)


@router.post("/blobs", openapi_extra=RAW_BODY)
async def store_blobs(request: Request, plane: PlaneDep) -> dict[str, int]:
    """Contents framed as ``<sha256> <size>\\n<bytes>``; each digest is verified."""

    def store(body: Iterator[bytes]) -> int:
        return len(plane.blobs.put_many(frames(body)))

    return {"stored": await with_body(request, plane.settings.max_file_bytes, store)}


@router.get("/snapshots/{snapshot_id}")
def show_snapshot(snapshot_id: str, plane: PlaneDep) -> dict[str, Any]:
    files = snapshots.read(plane, snapshot_id)
    return {
        "id": snapshot_id,
        "count": len(files),
        "size": sum(file.size for file in files),
        "files": [file.to_dict() for file in files],
    }


@router.get("/snapshots/{snapshot_id}/archive", response_class=Tar)
def read_archive(snapshot_id: str, plane: PlaneDep) -> StreamingResponse:
    pieces = snapshots.archive(plane, snapshot_id)
    return StreamingResponse(pieces, media_type="application/x-tar")


@router.get("/snapshots/{snapshot_id}/diff/{other_id}")
def diff_snapshots(snapshot_id: str, other_id: str, plane: PlaneDep) -> dict[str, list[str]]:
    return snapshots.diff(plane, snapshot_id, other_id)
