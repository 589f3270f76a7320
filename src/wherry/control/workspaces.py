"""Workspaces and experiments: made, changed, taken away."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from wherry.core.errors import ConflictError, NotFoundError
from wherry.core.ids import check_name
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, Status
from wherry.core.records import Experiment, Workspace
from wherry.store import computes, listing, workspaces

from . import runs
from .plane import DEFAULT_WORKSPACE, Plane


def every(plane: Plane) -> list[Workspace]:
    with plane.database.read() as connection:
        return workspaces.every(connection)


def create(
    plane: Plane, name: str, *, exist_ok: bool, description: str, tags: Mapping[str, str]
) -> Workspace:
    check_name("workspace", name)
    try:
        with plane.write() as connection:
            return workspaces.create(connection, name, plane.now(), description, tags)
    except ConflictError:
        if not exist_ok:
            raise
    return show(plane, name)


def show(plane: Plane, name: str) -> Workspace:
    with plane.database.read() as connection:
        return workspaces.get(connection, name)


def remove(plane: Plane, name: str) -> None:
    """With everything in it; refused while a run goes on, and for the one that is always there."""
    if name == DEFAULT_WORKSPACE:
        raise ConflictError(
            f"workspace {name!r} cannot be deleted: there is always one of that name",
            hint="its runs can: wherry job delete RUN_ID...",
        )
    _without_computes(plane, name)
    live = [status.value for status in Status if status not in TERMINAL]
    unfinished = listing.Filter(
        statuses=[*live, CANCEL_REQUESTED], include_children=True, archived="all"
    )
    busy = runs.page(plane, name, unfinished, 1, None)
    if busy.items:
        raise ConflictError(
            f"run {busy.items[0].id} of workspace {name!r} has not ended",
            hint="cancel it first: wherry job cancel " + busy.items[0].id,
        )
    everything = listing.Filter(include_children=True, archived="all", order_by="submitted_at")
    while page := runs.page(plane, name, everything, 100, None).items:
        for run in page:
            with suppress(NotFoundError):  # it went with its parent
                runs.remove(plane, run.id)
    with plane.write() as connection:
        workspaces.remove(connection, workspaces.get(connection, name))


def _without_computes(plane: Plane, name: str) -> None:
    with plane.database.read() as connection:
        found = computes.of_workspace(connection, workspaces.get(connection, name))
    if found:
        raise ConflictError(
            f"workspace {name!r} still has the compute target {found[0].name!r}",
            hint=f"wherry compute delete {found[0].name} --workspace {name}, then the workspace",
        )


def experiments(plane: Plane, workspace_name: str, *, archived: bool) -> list[Experiment]:
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        return workspaces.list_experiments(connection, workspace, archived=archived)


def ensure_experiment(plane: Plane, workspace_name: str, name: str) -> Experiment:
    check_name("experiment", name)
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        workspaces.ensure_experiment(connection, workspace, name, plane.now())
        return workspaces.get_experiment(connection, workspace, name)


def show_experiment(plane: Plane, workspace_name: str, name: str) -> Experiment:
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        return workspaces.get_experiment(connection, workspace, name)


def change_experiment(
    plane: Plane, workspace_name: str, name: str, changes: Mapping[str, Any]
) -> Experiment:
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        experiment = workspaces.get_experiment(connection, workspace, name)
        tags = {**experiment.tags, **changes.get("tags", {})}
        for key in changes.get("remove_tags", []):
            tags.pop(key, None)
        fields: dict[str, Any] = {"tags": tags}
        if "description" in changes:
            fields["description"] = changes["description"]
        if "archived" in changes:
            fields["archived_at"] = plane.now() if changes["archived"] else None
        workspaces.update_experiment(connection, experiment, fields)
        return workspaces.get_experiment(connection, workspace, name)


def remove_experiment(plane: Plane, workspace_name: str, name: str) -> None:
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        experiment = workspaces.get_experiment(connection, workspace, name)
        workspaces.remove_experiment(connection, experiment)
