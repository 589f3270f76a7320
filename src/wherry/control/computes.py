"""Compute targets of a workspace: created or attached, changed, stopped, taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row
from sqlalchemy.exc import IntegrityError

from wherry.core.compute_configs import (
    INSTANCE,
    LOCATED,
    MACHINE,
    kind_of,
    parse_compute,
    parse_secrets,
    site_name,
)
from wherry.core.errors import (
    ConflictError,
    NotFoundError,
    TargetUnavailableError,
    UserErrorException,
)
from wherry.core.ids import new_uuid
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, Status
from wherry.core.nearest import listed, suggest
from wherry.core.records import Page, Workspace
from wherry.core.sessions import SESSION
from wherry.core.targets import CONTAINER_INSTANCE, LOCAL, check_compute_name, key
from wherry.core.vm_sizes import nearest
from wherry.store import computes, homes, instances, nodes, workspaces
from wherry.store.listing import Filter

from . import compute_records, instance_kernels, machines, runs, sessions, sites
from .compute_secrets import opened, readable, sealed
from .machines import CREATING, FAILED, SUCCEEDED
from .operations import BY_USER, operate, operation
from .plane import Plane
from .site_opening import open_site

DELETING = "Deleting"
_LISTED = 20


def every(plane: Plane, workspace_name: str) -> list[dict[str, Any]]:
    """This machine, and what the workspace has."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        rows = computes.of_workspace(connection, workspace)
        found = [compute_records.record(plane, connection, row) for row in rows]
    return [compute_records.local(plane), *found]


def show(plane: Plane, workspace_name: str, name: str) -> dict[str, Any]:
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if name == LOCAL:
            return compute_records.local(plane)
        row = get(connection, workspace, name)
        return compute_records.record(plane, connection, row)


def get(connection: Connection, workspace: Workspace, name: str, *, lock: bool = False) -> Row[Any]:
    if name == LOCAL:
        raise ConflictError("the compute target 'local' is this machine: it is always there")
    if name == CONTAINER_INSTANCE:
        raise NotFoundError(
            "'containerinstance' is no compute target to look at or to change: each run that names "
            "it gets a container of its own",
            hint="wherry run --target containerinstance --cpu 1 --memory 2GB train.py",
        )
    row = computes.find(connection, key(workspace.name, name), lock=lock)
    if row is None:
        raise missing(connection, workspace, name)
    return row


def missing(connection: Connection, workspace: Workspace, name: str) -> NotFoundError:
    known = [LOCAL, *(row.name for row in computes.of_workspace(connection, workspace))]
    return NotFoundError(
        f"workspace {workspace.name!r} has no compute target {name!r}{suggest(name, known)}",
        hint=f"the targets are: {listed(known)}",
    )


def put(
    plane: Plane, workspace_name: str, name: str, fields: Mapping[str, Any], who: str = ""
) -> tuple[dict[str, Any], bool]:
    """The target, and whether this call made it; what is there already must be the same."""
    check_compute_name(workspace_name, name)
    kind = kind_of(fields["type"], fields.get("kind"))
    config = parse_compute(fields["type"], kind, fields["config"])
    secrets = parse_secrets(fields.get("secrets"))
    made = {**fields, "kind": kind, "config": config, "created_by": who[:255]}
    _check_site(plane, kind, config)
    try:
        with plane.write() as connection:
            workspace = workspaces.get(connection, workspace_name)
            if kind in LOCATED:
                _site(connection, config, lock=True)  # it cannot go before this is written
            known = computes.find(connection, key(workspace.name, name), lock=True)
            if known is None:
                instance_kernels.check(plane, connection, workspace, kind, config)
            if known is not None and known.provisioning_state == FAILED:
                changes = _anew(plane, known.target, made, secrets)
                computes.change(connection, known.target, changes)
                _add_instance(plane, connection, kind, known.target)
                plane.problems.pop(known.target, None)
            elif known is not None:
                _same(plane, known, made, secrets)
            else:
                computes.add(connection, _row(plane, workspace, name, made, secrets))
                _add_instance(plane, connection, kind, key(workspace.name, name))
    except IntegrityError:
        raise ConflictError(f"compute target {name!r} was made just now; send it again") from None
    plane.computes_changed()
    return show(plane, workspace_name, name), known is None


def change(
    plane: Plane, workspace_name: str, name: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """What is named; the rest stays."""
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        row = _changeable(connection, workspace, name)
        changed = _changed(row.config, fields.get("config") or {})
        config = parse_compute(row.type, row.kind, changed)
        _check_fixed(row, config)
        if config.get("environments") != row.config.get("environments"):
            instance_kernels.check(plane, connection, workspace, row.kind, config)
        tags = {**row.tags, **(fields.get("tags") or {})}
        for tag in fields.get("remove_tags") or []:
            tags.pop(tag, None)
        changes: dict[str, Any] = {"config": config, "tags": tags, "modified_at": plane.now()}
        if fields.get("description") is not None:
            changes["description"] = fields["description"]
        if fields.get("secrets"):
            secrets = {**readable(plane, row), **parse_secrets(fields["secrets"])}
            changes["secrets"] = sealed(plane, row.target, secrets)
        if row.kind == MACHINE and (changes.get("secrets") or config != row.config):
            changes.update(provisioning_state=CREATING, provisioning_errors=[])
        computes.change(connection, row.target, changes)
        if row.kind == INSTANCE:  # what was due before is not due by schedules that are new
            instances.change(connection, row.target, {"scheduled_at": plane.now()})
    plane.computes_changed()
    plane.hint(row.target)
    return show(plane, workspace_name, name)


def check(plane: Plane, workspace_name: str, name: str) -> dict[str, Any]:
    """A look at the target now: whether it works, what it has, precisely what is wrong."""
    record = show(plane, workspace_name, name)
    if record["kind"] == MACHINE:
        with plane.database.read() as connection:
            row = get(connection, workspaces.get(connection, workspace_name), name)
        return machines.check(plane, row)
    trouble = record["problem"]
    return {"ok": not trouble, "problem": trouble, "hint": None, "cause": None, "found": None}


def act(plane: Plane, workspace_name: str, name: str, action: str) -> dict[str, Any]:
    """Stop: no run starts there and its idle nodes go. Start: as before. Restart: both."""
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        row = _changeable(connection, workspace, name)
        now = plane.now()
        if row.kind == MACHINE:
            raise ConflictError(
                f"{name!r} is a machine of its own: it is not started or stopped from here"
            )
        if row.kind == INSTANCE:
            operate(plane, connection, row, action)
        else:
            if action == "restart":
                _replace_idle(connection, row, now)
            stopped_at = (row.stopped_at or now) if action == "stop" else None
            changes = {"stopped_at": stopped_at, "modified_at": now}
            computes.change(connection, row.target, changes)
    plane.hint(row.target)
    return show(plane, workspace_name, name)


def remove(plane: Plane, workspace_name: str, name: str, *, cancel: bool) -> bool:
    """Whether it is gone already. Else it goes once its runs have ended and its nodes are away."""
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        row = _owned(connection, workspace, name)
        every = computes.active_runs(connection, row.target, 10_000)
        active = [each for each in every if each.type != SESSION]
        if active and not cancel and row.deleting_at is None:
            ids = [each.id for each in active]
            more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
            raise ConflictError(
                f"compute target {name!r} has {len(ids)} active run"
                f"{'' if len(ids) == 1 else 's'}: {', '.join(ids[:_LISTED])}{more}",
                hint="wait for them, or delete it with --cancel (cancel=true), which cancels them",
                runs=ids[:_LISTED],
            )
        now = plane.now()
        changes = {"provisioning_state": DELETING, "deleting_at": row.deleting_at or now}
        computes.change(connection, row.target, {**changes, "modified_at": now})
    for run in every:
        runs.cancel(plane, run.id)
    gone = finish_removal(plane, row.target)
    plane.computes_changed()
    plane.hint(row.target)
    return gone


def finish_removal(plane: Plane, target: str) -> bool:
    """Take the row of a target away that is to go and has nothing left; whether it is away."""
    with plane.write() as connection:
        row = computes.find(connection, target, lock=True)
        if row is None:
            return True
        waits = (
            row.deleting_at is None
            or nodes.present(connection, target)
            or computes.active_runs(connection, target, 1)
            or computes.has_traces(connection, target)
            or homes.find(connection, row.id) is not None
        )
        if waits:
            return False
    sessions.forget_old(plane, target, 0)
    with plane.write() as connection:
        nodes.forget_target(connection, target)
        instances.remove(connection, target)
        computes.remove(connection, target)
    plane.computes_changed()
    return True


def list_nodes(plane: Plane, workspace_name: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = show(plane, workspace_name, name)["nodes"]
    return found


def sizes(plane: Plane, workspace_name: str, name: str) -> list[dict[str, Any]]:
    """What its site offers."""
    record = show(plane, workspace_name, name)
    return sites.sizes(plane, record["location"]) if record["kind"] != MACHINE else []


def active_runs(
    plane: Plane, workspace_name: str, name: str, limit: int, cursor: str | None
) -> Page:
    """Runs of the target that have not ended."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if name != LOCAL:
            get(connection, workspace, name)
    live = [status.value for status in Status if status not in TERMINAL]
    unfinished = Filter(
        statuses=[*live, CANCEL_REQUESTED], target=name, include_children=True, archived="all"
    )
    return runs.page(plane, workspace_name, unfinished, limit, cursor)


def _row(
    plane: Plane,
    workspace: Workspace,
    name: str,
    made: Mapping[str, Any],
    secrets: Mapping[str, str],
) -> dict[str, Any]:
    target, now = key(workspace.name, name), plane.now()
    return {
        "id": new_uuid(),
        "workspace_id": workspace.id,
        "name": name,
        "target": target,
        "type": made["type"],
        "kind": made["kind"],
        "config": made["config"],
        "secrets": sealed(plane, target, secrets),
        "tags": dict(made.get("tags") or {}),
        "description": made.get("description") or "",
        "provisioning_state": _first_state(made["kind"]),
        "provisioning_errors": [],
        "created_by": made["created_by"],
        "created_at": now,
        "modified_at": now,
    }


def _anew(
    plane: Plane, target: str, made: Mapping[str, Any], secrets: Mapping[str, str]
) -> dict[str, Any]:
    """In the place of what could not be attached."""
    return {
        "type": made["type"],
        "kind": made["kind"],
        "config": made["config"],
        "secrets": sealed(plane, target, secrets),
        "created_by": made["created_by"],
        "provisioning_state": _first_state(made["kind"]),
        "provisioning_errors": [],
        "modified_at": plane.now(),
    }


def _first_state(kind: str) -> str:
    """Only a machine is looked at before it is one."""
    return CREATING if kind == MACHINE else SUCCEEDED


def _same(plane: Plane, row: Row[Any], made: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
    _not_going(row)
    asked = {name: made[name] for name in ("type", "config")}
    found = {"type": row.type, "config": _as_asked(row, made["config"])}
    if asked != found or (secrets and secrets != opened(plane, row)):
        raise ConflictError(
            f"compute target {row.name!r} exists already and is another one",
            hint="change it with wherry compute update, delete it first, or choose another name",
        )


def _changed(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """With what another machine, or another one on the way, has shown forgotten."""
    found = {**config, **changes}
    for pinned, names in (("host_key", ("address", "port")), ("jump_host_keys", ("jump",))):
        if pinned not in changes and any(found.get(name) != config.get(name) for name in names):
            found.pop(pinned, None)
    return found


def _as_asked(row: Row[Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Host keys that were found on attaching were not asked for."""
    found = parse_compute(row.type, row.kind, row.config)  # an older version knew fewer fields
    for name, nothing in (("host_key", ""), ("jump_host_keys", [])):
        if row.kind == MACHINE and not config.get(name):
            found[name] = nothing
    return found


def _check_site(plane: Plane, kind: str, config: Mapping[str, Any]) -> None:
    """Refuse a place or a size that there is not."""
    if kind not in LOCATED:
        return
    with plane.database.read() as connection:
        name = _site(connection, config)
    try:
        offered = open_site(plane, name).sizes()
    except TargetUnavailableError:
        return  # told on the target
    nearest(config["vm_size"], offered)


def _site(connection: Connection, config: Mapping[str, Any], *, lock: bool = False) -> str:
    """The name of the site that a cluster is at."""
    name = site_name(config["location"])
    try:
        sites.get(connection, name, lock=lock)
    except NotFoundError as error:
        raise UserErrorException(
            f"location is {config['location']!r}: {error.message}", hint=error.hint
        ) from None
    return name


def _check_fixed(row: Row[Any], config: Mapping[str, Any]) -> None:
    for name in ("vm_size", "vm_priority", "location", "ssh_port"):
        if row.kind in LOCATED and row.config.get(name, 0) != config.get(name, 0):
            raise ConflictError(
                f"{name} of compute target {row.name!r} cannot be changed",
                hint="delete it, and create it anew",
            )


def _add_instance(plane: Plane, connection: Connection, kind: str, target: str) -> None:
    if kind == INSTANCE:
        now = plane.now()
        instances.add(connection, target, now, operation("Create", BY_USER, now))


def _owned(connection: Connection, workspace: Workspace, name: str) -> Row[Any]:
    return get(connection, workspace, name, lock=True)


def _changeable(connection: Connection, workspace: Workspace, name: str) -> Row[Any]:
    row = _owned(connection, workspace, name)
    _not_going(row)
    return row


def _not_going(row: Row[Any]) -> None:
    if row.deleting_at is not None:
        raise ConflictError(
            f"compute target {row.name!r} is being deleted", hint="wait until it is gone"
        )


def _replace_idle(connection: Connection, row: Row[Any], now: Any) -> None:
    """Nodes without a run go; others come when there is need of them."""
    busy = nodes.busy(connection, row.target)
    for node in nodes.present(connection, row.target):
        if node.id not in busy and node.state in (nodes.IDLE, nodes.UNUSABLE):
            nodes.move(connection, node.id, nodes.LEAVING, now, reason="restarted")
