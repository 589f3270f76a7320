"""Snapshots and blobs over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from wherry.control import snapshots
from wherry.control.plane import Plane
from wherry.core.errors import ForbiddenError
from wherry.store import runs

from .bodies import NewSnapshot
from .deps import Caller, CallerDep, OwnerDep, PlaneDep, WorkspaceCallerDep, with_body
from .frames import frames

router = APIRouter(tags=["snapshots"])


@router.post("/workspaces/{workspace}/snapshots")
def register_snapshot(
    workspace: str, body: NewSnapshot, plane: PlaneDep, _caller: WorkspaceCallerDep
) -> dict[str, Any]:
    files = [each.model_dump(exclude_none=True) for each in body.files]
    return snapshots.register(plane, workspace, files)


@router.post("/blobs")
async def store_blobs(request: Request, plane: PlaneDep, _caller: CallerDep) -> dict[str, int]:
    """Contents framed as ``<sha256> <size>\\n<bytes>``; each digest is verified."""

    def store(body: Iterator[bytes]) -> int:
        return len(plane.blobs.put_many(frames(body)))

    return {"stored": await with_body(request, plane.settings.max_file_bytes, store)}


@router.get("/snapshots/{snapshot_id}")
def show_snapshot(snapshot_id: str, plane: PlaneDep, caller: CallerDep) -> dict[str, Any]:
    _may_read(plane, caller, snapshot_id)
    files = snapshots.read(plane, snapshot_id)
    return {
        "id": snapshot_id,
        "count": len(files),
        "size": sum(file.size for file in files),
        "files": [file.to_dict() for file in files],
    }


@router.get("/snapshots/{snapshot_id}/archive")
def read_archive(snapshot_id: str, plane: PlaneDep, caller: CallerDep) -> StreamingResponse:
    _may_read(plane, caller, snapshot_id)
    pieces = snapshots.archive(plane, snapshot_id)
    return StreamingResponse(pieces, media_type="application/x-tar")


@router.get("/snapshots/{snapshot_id}/diff/{other_id}")
def diff_snapshots(
    snapshot_id: str, other_id: str, plane: PlaneDep, _caller: OwnerDep
) -> dict[str, list[str]]:
    return snapshots.diff(plane, snapshot_id, other_id)


def _may_read(plane: Plane, caller: Caller, snapshot_id: str) -> None:
    if caller.run_id is None:
        return
    with plane.database.read() as connection:
        if runs.get(connection, caller.run_id).snapshot_id != snapshot_id:
            raise ForbiddenError(f"run {caller.run_id} does not use this snapshot")
