"""Environments over HTTP: register, list, show, label."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from wherry.control import environment_secrets, environments
from wherry.core.environments import LATEST, Reference
from wherry.core.records import Environment

from .bodies import LabelledVersion, NewEnvironment
from .callers import Caller
from .deps import CallerDep, PlaneDep
from .guard import guarded_router
from .plain_json import PlainJSON

router = guarded_router("environments")


@router.get("/workspaces/{workspace}/environments")
def list_environments(workspace: str, plane: PlaneDep, caller: CallerDep) -> dict[str, Any]:
    """The newest version of every environment, curated ones among them. A run sees no secrets."""
    return {"items": [_seen(each, caller) for each in environments.every(plane, workspace)]}


@router.post(
    "/workspaces/{workspace}/environments",
    status_code=201,
    response_class=PlainJSON,
    responses={200: {"description": "The version that has this content already."}},
)
def register_environment(
    workspace: str, body: NewEnvironment, plane: PlaneDep, caller: CallerDep
) -> PlainJSON:
    """Keep an environment as the next version, or as the one that is named."""
    record, created = environments.register(plane, workspace, body.model_dump(), caller.name)
    return PlainJSON(record.to_dict(), status_code=201 if created else 200)


@router.get("/workspaces/{workspace}/environments/{environment}")
def list_versions(
    workspace: str, environment: str, plane: PlaneDep, caller: CallerDep
) -> dict[str, Any]:
    """All versions of an environment, the newest first. A run sees no secrets."""
    found = environments.versions(plane, workspace, environment)
    return {"items": [_seen(each, caller) for each in found]}


@router.get("/workspaces/{workspace}/environments/{environment}/versions/{version}")
def show_environment(
    workspace: str, environment: str, version: str, plane: PlaneDep, caller: CallerDep
) -> dict[str, Any]:
    """One version of an environment; ``latest`` is the newest. A run sees no secrets."""
    wanted = Reference(environment, None if version == LATEST else version)
    return _seen(environments.show(plane, workspace, wanted), caller)


@router.get("/workspaces/{workspace}/environments/{environment}/labels/{label}")
def show_labelled(
    workspace: str, environment: str, label: str, plane: PlaneDep, caller: CallerDep
) -> dict[str, Any]:
    """The version of an environment that a label is on. A run sees no secrets."""
    wanted = Reference(environment, label=None if label == LATEST else label)
    return _seen(environments.show(plane, workspace, wanted), caller)


@router.put("/workspaces/{workspace}/environments/{environment}/labels/{label}")
def label_environment(
    workspace: str, environment: str, label: str, body: LabelledVersion, plane: PlaneDep
) -> dict[str, Any]:
    """Put a label on a version of an environment; no other version has it then."""
    return environments.label(plane, workspace, environment, label, body.version).to_dict()


@router.delete("/workspaces/{workspace}/environments/{environment}/labels/{label}", status_code=204)
def unlabel_environment(workspace: str, environment: str, label: str, plane: PlaneDep) -> Response:
    """Take a label from the version of an environment that it is on."""
    environments.unlabel(plane, workspace, environment, label)
    return Response(status_code=204)


def _seen(record: Environment, caller: Caller) -> dict[str, Any]:
    """A run may use the environments of its workspace; it reads the values of its own alone."""
    fields = record.to_dict()
    if caller.run_id is not None:
        fields["specification"] = environment_secrets.hidden(record.specification)
    return fields
