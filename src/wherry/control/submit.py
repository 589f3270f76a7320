"""Submission: checked in full, then one row, then a hint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from wherry.core.compute_configs import LOCATED
from wherry.core.errors import (
    ComputeTargetException,
    NotFoundError,
    UserErrorException,
    WherryError,
)
from wherry.core.ids import check_name, check_run_id, new_run_id, new_uuid
from wherry.core.lifecycle import Status
from wherry.core.nearest import listed, suggest
from wherry.core.placement import Placement
from wherry.core.records import Run, Workspace
from wherry.core.specs import RunSpec
from wherry.core.targets import BUILT_IN, key
from wherry.drivers.base import Preflight, Remote
from wherry.drivers.fleet import Fleet
from wherry.store import computes, run_records, runs, snapshots, workspaces

from . import compute_checks, container_instances, environments, launch, sealing, wheels
from . import snapshots as trees
from .plane import Plane

SCRIPT_RUN = "azureml.scriptrun"


def submit(
    plane: Plane, workspace_name: str, fields: Mapping[str, Any], who: str
) -> tuple[Run, bool]:
    """The run, and whether this call made it: a known ``submission_key`` finds the first one."""
    spec = parsed(plane, workspace_name, fields)
    problem = _problem(plane, workspace_name, spec)
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        known = _known(connection, workspace, spec)
        if known is not None:
            return known, False
        check_snapshots(connection, workspace, spec)
        wheels.check_there(connection, workspace, spec.environment.specification)
        if problem is not None:
            raise problem
        check_present(connection, workspace, spec.target)
        run = _insert(plane, connection, workspace, spec, who)
    plane.hint_queued(key(workspace.name, spec.target))
    return run, True


def parsed(plane: Plane, workspace_name: str, fields: Mapping[str, Any]) -> RunSpec:
    """What is asked for, with what its environment and its target mean now."""
    asked = RunSpec.parse(environments.resolved(plane, workspace_name, fields))
    return container_instances.boxed(plane, asked)


def _problem(plane: Plane, workspace_name: str, spec: RunSpec) -> WherryError | None:
    """Found before the transaction; told only if there is nothing else to say."""
    try:
        check(plane, workspace_name, spec)
    except WherryError as error:
        return error
    return None


def plan(plane: Plane, workspace_name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What ``submit`` would execute, storing nothing."""
    spec = parsed(plane, workspace_name, fields)
    with plane.database.read() as connection:
        workspaces.get(connection, workspace_name)
    driver = check(plane, workspace_name, spec, dry_run=True)
    place = Placement("dry-run", spec.resources)
    reach = launch.reach_of(plane, key(workspace_name, spec.target))
    request = launch.describe(plane, spec, "dry-run", "dry-run", place, {}, reach)
    return {
        "target": spec.target,
        "argv": launch.argv(spec, reach),
        "environment_variables": {
            **spec.environment.environment_variables,
            **spec.environment_variables,
        },
        "resources": str(spec.resources),
        "rendered": driver.render(request),
    }


def start_interactive(
    plane: Plane, workspace_name: str, fields: Mapping[str, Any], who: str
) -> Run:
    """A run that its client drives: ``start_logging`` and child runs."""
    name = check_name("experiment", fields.get("experiment"))
    now = plane.now()
    run_id = check_run_id(fields.get("run_id") or new_uuid())
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if runs.find(connection, run_id) is not None:
            raise UserErrorException(f"there is a run {run_id!r} already")
        if fields.get("snapshot_id"):
            check_snapshot(connection, workspace, fields["snapshot_id"])
        experiment = workspaces.ensure_experiment(connection, workspace, name, now)
        row: dict[str, Any] = {
            "id": run_id,
            "workspace_id": workspace.id,
            "experiment_id": experiment.id,
            "parent_id": fields.get("parent_id"),
            "root_id": root_of(connection, workspace, fields.get("parent_id")) or run_id,
            "number": workspaces.next_number(connection, experiment),
            "display_name": fields.get("display_name") or "",
            "status": Status.RUNNING.value,
            "snapshot_id": fields.get("snapshot_id") or None,
            "submitted_by": who[:255],
            "submitted_at": now,
            "started_at": now,
            "heartbeat_at": now,
        }
        runs.add(connection, row, fields.get("tags") or {}, fields.get("properties") or {})
        return _record(connection, run_id)


def _known(connection: Connection, workspace: Workspace, spec: RunSpec) -> Run | None:
    if not spec.submission_key:
        return None
    row = runs.by_key(connection, workspace.id, spec.submission_key)
    return run_records.to_records(connection, [row], spec=True)[0] if row is not None else None


def check_snapshots(connection: Connection, workspace: Workspace, spec: RunSpec) -> None:
    """Its source, and what its image is built from."""
    check_snapshot(connection, workspace, spec.snapshot_id)
    context = context_of(spec)
    if context:
        check_snapshot(connection, workspace, context)


def context_of(spec: RunSpec) -> str | None:
    """The snapshot that the image of a run's environment is built from."""
    docker = (spec.environment.specification or {}).get("docker") or {}
    return docker.get("context") or None


def check_snapshot(connection: Connection, workspace: Workspace, snapshot_id: str) -> None:
    if not snapshots.has(connection, workspace.id, snapshot_id):
        raise NotFoundError(
            f"workspace {workspace.name!r} has no snapshot {snapshot_id!r}",
            hint="register the snapshot first",
            snapshot_id=snapshot_id,
        )


def check(plane: Plane, workspace_name: str, spec: RunSpec, *, dry_run: bool = False) -> Any:
    """Refuse now what could never start. What renders it for people."""
    driver = plane.drivers.get(key(workspace_name, spec.target))
    row = None if spec.target in BUILT_IN else _compute(plane, workspace_name, spec.target)
    if spec.script and not dry_run and spec.script not in trees.read_tree(plane, spec.snapshot_id):
        raise UserErrorException(
            f"the script {spec.script!r} is not in the snapshot",
            hint="script is a path inside source_directory; an ignore file may leave it out",
        )
    if row is not None and row.kind in LOCATED:
        refusal = compute_checks.refusal(plane, row, spec)
    else:
        refusal = _refusal(driver, spec)
    if refusal:
        raise UserErrorException(
            f"target {spec.target!r} cannot run it: {refusal}",
            hint="ask for less, or name another target or interpreter; wherry compute list "
            "shows what there is",
        )
    return driver or Fleet(lambda _node: None)


def _refusal(driver: Any, spec: RunSpec) -> str | None:
    if spec.node_count > 1:
        return f"it asks for {spec.node_count} nodes, and this target is one"
    if not isinstance(driver, Preflight):
        return None
    wanted = spec.environment
    implied = wanted.interpreter_implied and isinstance(driver, Remote)
    prepared = implied or wanted.specification is not None
    interpreter = None if prepared else wanted.interpreter_path or None
    return driver.refuse(spec.resources, interpreter if spec.script else None)


def _compute(plane: Plane, workspace_name: str, name: str) -> Any:
    """The row of a compute target of the workspace."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        row = computes.find(connection, key(workspace_name, name))
        known = [*BUILT_IN, *(each.name for each in computes.of_workspace(connection, workspace))]
    if row is None:
        raise ComputeTargetException(
            f"there is no compute target {name!r}{suggest(name, known)}",
            hint=f"the targets are: {listed(sorted(known))}",
        )
    return row


def check_present(connection: Connection, workspace: Workspace, name: str) -> None:
    """In the transaction that stores a run: a target that goes away meanwhile gets no more."""
    if name in BUILT_IN:
        return
    row = computes.find(connection, key(workspace.name, name), share=True)
    if row is None or row.deleting_at is not None:
        raise ComputeTargetException(
            f"the compute target {name!r} is being deleted", hint="name another one"
        )


def _insert(
    plane: Plane, connection: Connection, workspace: Workspace, spec: RunSpec, who: str
) -> Run:
    now = plane.now()
    experiment = workspaces.ensure_experiment(connection, workspace, spec.experiment, now)
    root_id = root_of(connection, workspace, spec.parent_id)
    number = workspaces.next_number(connection, experiment)
    row = new_row(plane, spec, workspace, experiment.id, number, who, now, root_id)
    properties = properties_of(spec)
    runs.add(connection, row, spec.tags, properties)
    return run_records.new_record(row, workspace.name, spec.experiment, spec.tags, properties)


def new_row(
    plane: Plane,
    spec: RunSpec,
    workspace: Workspace,
    experiment_id: str,
    number: int,
    who: str,
    now: datetime,
    root_id: str | None = None,
) -> dict[str, Any]:
    """A queued run as it is stored."""
    run_id = new_run_id(spec.experiment.lstrip("."), now.timestamp())
    return {
        "id": run_id,
        "workspace_id": workspace.id,
        "experiment_id": experiment_id,
        "parent_id": spec.parent_id,
        "root_id": root_id or run_id,
        "number": number,
        "type": SCRIPT_RUN,
        "display_name": spec.display_name,
        "description": spec.description,
        "status": Status.QUEUED.value,
        "target": key(workspace.name, spec.target),
        "node_count": spec.node_count,
        "priority": spec.priority,
        "limit_s": spec.max_run_duration_s,
        "spec": sealing.sealed(plane.secret, run_id, spec.to_dict()),
        "cpu": spec.resources.cpu,
        "memory_bytes": spec.resources.memory_bytes,
        "gpu": spec.resources.gpu,
        "snapshot_id": spec.snapshot_id,
        "context_id": context_of(spec),
        "submission_key": spec.submission_key,
        "submitted_by": who[:255],
        "submitted_at": now,
    }


def properties_of(spec: RunSpec) -> dict[str, str]:
    given = {"ContentSnapshotId": spec.snapshot_id, "_azureml.ComputeTargetType": spec.target}
    return {**given, **spec.properties}


def root_of(connection: Connection, workspace: Workspace, parent_id: str | None) -> str | None:
    if parent_id is None:
        return None
    parent = runs.get(connection, parent_id, lock=True)
    if parent.workspace_id != workspace.id:
        raise UserErrorException(f"run {parent_id} is in another workspace than its child would be")
    return str(parent.root_id)


def _record(connection: Connection, run_id: str) -> Run:
    return run_records.to_records(connection, [runs.get(connection, run_id)], spec=True)[0]
