"""Wheels of a workspace over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from wherry.control import wheels

from .bodies import NewWheel
from .deps import CallerDep, PlaneDep
from .guard import guarded_router
from .octets import RANGES, OctetStream
from .plain_json import PlainJSON
from .ranges import read_range

router = guarded_router("wheels")


@router.get("/workspaces/{workspace}/wheels")
def list_wheels(workspace: str, plane: PlaneDep) -> dict[str, Any]:
    """The wheels that a workspace keeps, the newest first."""
    return {"items": [each.to_dict() for each in wheels.every(plane, workspace)]}


@router.post(
    "/workspaces/{workspace}/wheels",
    status_code=201,
    response_class=PlainJSON,
    responses={200: {"description": "It is kept already, or its content is missing."}},
)
def add_wheel(workspace: str, body: NewWheel, plane: PlaneDep, caller: CallerDep) -> PlainJSON:
    """Keep a wheel whose content is here (``POST /blobs``), or say that it is missing."""
    record, created = wheels.add(plane, workspace, body.model_dump(), caller.name)
    if record is None:
        return PlainJSON({"missing": [body.digest]})
    return PlainJSON({**record.to_dict(), "missing": []}, status_code=201 if created else 200)


@router.get("/runs/{run_id}/wheels/{digest}", response_class=OctetStream, responses=RANGES)
def read_wheel(run_id: str, digest: str, request: Request, plane: PlaneDep) -> Response:
    """The content of a wheel that the run's workspace keeps."""
    file, size = wheels.open_for(plane, run_id, digest)
    return read_range(file, size, request.headers.get("range"), digest=digest)
