"""Workspaces and experiments over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from wherry.control import workspaces

from .bodies import ExperimentChanges, NewExperiment, NewWorkspace
from .deps import PlaneDep
from .guard import guarded_router

router = guarded_router("workspaces")


@router.get("/workspaces")
def list_workspaces(plane: PlaneDep) -> dict[str, Any]:
    return {"items": [each.to_dict() for each in workspaces.every(plane)]}


@router.post("/workspaces", status_code=201)
def create_workspace(body: NewWorkspace, plane: PlaneDep) -> dict[str, Any]:
    return workspaces.create(plane, **body.model_dump()).to_dict()


@router.get("/workspaces/{workspace}")
def show_workspace(workspace: str, plane: PlaneDep) -> dict[str, Any]:
    return workspaces.show(plane, workspace).to_dict()


@router.delete("/workspaces/{workspace}", status_code=204)
def delete_workspace(workspace: str, plane: PlaneDep) -> Response:
    workspaces.remove(plane, workspace)
    return Response(status_code=204)


@router.get("/workspaces/{workspace}/experiments")
def list_experiments(workspace: str, plane: PlaneDep, archived: bool = False) -> dict[str, Any]:
    found = workspaces.experiments(plane, workspace, archived=archived)
    return {"items": [each.to_dict() for each in found]}


@router.post("/workspaces/{workspace}/experiments")
def ensure_experiment(workspace: str, body: NewExperiment, plane: PlaneDep) -> dict[str, Any]:
    return workspaces.ensure_experiment(plane, workspace, body.name).to_dict()


@router.get("/workspaces/{workspace}/experiments/{name}")
def show_experiment(workspace: str, name: str, plane: PlaneDep) -> dict[str, Any]:
    return workspaces.show_experiment(plane, workspace, name).to_dict()


@router.patch("/workspaces/{workspace}/experiments/{name}")
def change_experiment(
    workspace: str, name: str, body: ExperimentChanges, plane: PlaneDep
) -> dict[str, Any]:
    changes = body.model_dump(exclude_none=True)
    return workspaces.change_experiment(plane, workspace, name, changes).to_dict()


@router.delete("/workspaces/{workspace}/experiments/{name}", status_code=204)
def delete_experiment(workspace: str, name: str, plane: PlaneDep) -> Response:
    workspaces.remove_experiment(plane, workspace, name)
    return Response(status_code=204)
