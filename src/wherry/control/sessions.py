"""Sessions of compute instances: runs that the server submits itself and no list shows."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.instance_config import InstanceConfig
from wherry.core.lifecycle import Status
from wherry.core.records import Workspace
from wherry.core.resources import Resources
from wherry.core.sessions import CREATED, EXPERIMENT, SESSION, variables
from wherry.core.specs import EnvironmentSpec, RunSpec
from wherry.core.targets import workspace_of
from wherry.store import computes, instances, runs, workspaces

from . import curated, instance_kernels, instance_tokens, snapshots
from . import runs as run_control
from .plane import Plane
from .session_facts import base_url, jupyter_token, last, live
from .submit import new_row

ENVIRONMENT = "Wherry-jupyter"
_KEPT = 3
_LONGEST = 1_000_000  # of what a session is told, all together


def begin(plane: Plane, row: Row[Any], node: Row[Any]) -> None:
    """A session on the node, which is started like every run."""
    workspace_name = workspace_of(row.target)
    with plane.database.read() as connection:
        kernels, missing = instance_kernels.kernels(plane, connection, row)
    snapshot_id = snapshots.register(plane, workspace_name, [])["id"]
    with plane.write() as connection:
        known = instances.find(connection, row.target)
        if known is None or live(connection, known) is not None:
            return
        _, said = last(connection, known)
        number = known.sessions + 1
        told = {
            "instance": row.name,
            "workspace": workspace_name,
            "home": node.config.get("home") or "",
            "base_url": base_url(row),
            "jupyter_token": jupyter_token(plane, row, number),
            "token": instance_tokens.make(plane, row),
            "create": not (known.created or said.get(CREATED) == "true"),
            "gpus": list(node.gpus),
            "kernels": kernels,
            "notices": missing,
        }
        config = InstanceConfig(**row.config)
        told["creation_script"] = config.creation_script
        told["startup_script"] = config.startup_script
        _shorten(told)
        workspace = workspaces.get(connection, workspace_name)
        spec = _spec(workspace, row, snapshot_id, told)
        run_id = _insert(plane, connection, workspace, spec)
        now = plane.now()
        begun = {"session_id": run_id, "sessions": number, "session_at": now, "active_at": now}
        instances.change(connection, row.target, begun)
    plane.hint_queued(row.target)


def end(plane: Plane, run_id: str) -> None:
    run_control.cancel(plane, run_id)


def forget_old(plane: Plane, target: str, kept: int = _KEPT) -> None:
    """Sessions that are over, but for the latest."""
    with plane.database.read() as connection:
        over = computes.sessions(connection, target)
    for run in over[kept:]:
        if Status(run.status).terminal:
            run_control.remove(plane, run.id)


def _shorten(told: dict[str, Any]) -> None:
    """It goes into environment variables: kernels whose description does not fit are left out."""
    while told["kernels"] and len(json.dumps(told)) > _LONGEST:
        largest = max(told["kernels"], key=lambda each: len(json.dumps(each)))
        told["kernels"].remove(largest)
        told["notices"].append(
            f"there is no kernel for environment {largest['name']!r} version {largest['version']}:"
            f" its description is too long"
        )


def _spec(workspace: Workspace, row: Row[Any], snapshot_id: str, told: dict[str, Any]) -> RunSpec:
    wanted = curated.get(workspace.name, ENVIRONMENT, None)
    environment = EnvironmentSpec(
        name=wanted.name, version=wanted.version, specification=dict(wanted.specification)
    )
    return RunSpec(
        experiment=EXPERIMENT,
        snapshot_id=snapshot_id,
        target=row.name,
        command=["python", "-m", "wherry.session"],
        environment=environment,
        environment_variables=variables(json.dumps(told)),
        resources=Resources(0, 0, 0),
        display_name=f"JupyterLab of {row.name}",
    )


def _insert(plane: Plane, connection: Connection, workspace: Workspace, spec: RunSpec) -> str:
    now = plane.now()
    experiment = workspaces.ensure_experiment(connection, workspace, spec.experiment, now)
    number = workspaces.next_number(connection, experiment)
    row = new_row(plane, spec, workspace, experiment.id, number, "wherry", now)
    row["type"] = SESSION
    runs.add(connection, row, {}, {})
    return str(row["id"])
