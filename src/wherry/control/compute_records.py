"""Compute targets as they are shown: what they are, what they do, what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import (
    CONTAINER,
    INSTANCE,
    LOCATED,
    cluster_of,
    is_region,
    site_name,
)
from wherry.core.errors import TargetUnavailableError, WherryError
from wherry.core.placement import Used, free_of
from wherry.core.records import iso
from wherry.core.resources import Resources
from wherry.core.targets import BUILT_IN, LOCAL
from wherry.core.vm_sizes import nearest
from wherry.drivers.base import Health
from wherry.store import attempts, nodes, queues, sites

from . import instance_records
from .crowding import beyond, crowded
from .plane import Plane
from .site_opening import open_site

STEADY, RESIZING = "Steady", "Resizing"
_LAST, _MOST_COUNTED = 2**62, 1000


def record(plane: Plane, connection: Connection, row: Row[Any]) -> dict[str, Any]:
    present = nodes.present(connection, row.target)
    instance = _of_instance(plane, connection, row)
    session = instance["instance"]["session_run_id"] if instance else None
    active = [each for each in attempts.active(connection, row.target) if each.run_id != session]
    busy = nodes.busy(connection, row.target)
    if instance:  # its session is no run that people have given it
        busy = {each.node_id: each.run_id for each in active}
    begun = {attempt.node_id: attempt.created_at for attempt in reversed(active)}
    shown = [_node(node, busy.get(node.id), begun.get(node.id)) for node in present]
    located = row.kind in LOCATED
    if not located:
        shown = _nodes_of(plane.machines.get(row.target), active, iso(row.created_at), row.config)
    size, told = _offer(plane, connection, row) if located else ("", [])
    return {
        "name": row.name,
        "type": row.type,
        "kind": row.kind,
        "location": site_name(row.config["location"]) if located else row.config["address"],
        "config": row.config,
        "tags": row.tags,
        "description": row.description,
        "provisioning_state": row.provisioning_state,
        "provisioning_errors": row.provisioning_errors,
        "created_by": row.created_by or None,
        "created_at": iso(row.created_at),
        "modified_at": iso(row.modified_at),
        "state": "Stopped" if row.stopped_at is not None else "Running",
        **instance,
        "problem": problem(plane, connection, row, present),
        "doing": doing(plane, present) or _waits_for(plane, connection, row),
        "notices": told,
        "status": _status(row, present, shown) if located else None,
        "node_size": size,
        "nodes": shown,
        "free": _free_on(plane, row, shown, active),
        "active": len(active),
        "waiting": _waiting(connection, row.target),
    }


def _of_instance(plane: Plane, connection: Connection, row: Row[Any]) -> dict[str, Any]:
    if row.kind != INSTANCE:
        return {}
    found = instance_records.record(plane, connection, row)
    return {"state": found["state"], "instance": found}


def _waits_for(plane: Plane, connection: Connection, row: Row[Any]) -> str | None:
    return instance_records.doing(plane, connection, row) if row.kind == INSTANCE else None


def _waiting(connection: Connection, target: str) -> int:
    """How many runs wait for it, counted up to a thousand."""
    return queues.count_before(connection, target, _LAST, _MOST_COUNTED)


def _free_on(
    plane: Plane, row: Row[Any], shown: Sequence[Mapping[str, Any]], active: Sequence[Any]
) -> dict[str, Any]:
    if row.kind == INSTANCE:
        return _shared(shown, active)
    if row.kind in LOCATED:
        return _free(shown)
    return _left(plane.machines.get(row.target), active)


def _free(shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the nodes have that run nothing."""
    idle = [node for node in shown if node["state"] == nodes.IDLE]
    return {what: sum(node[what] for node in idle) for what in ("cpu", "memory_bytes", "gpu")}


def _shared(shown: Sequence[Mapping[str, Any]], active: Sequence[Any]) -> dict[str, Any]:
    """What runs leave of a node that they share."""
    ready = [node for node in shown if node["state"] in (nodes.IDLE, nodes.RUNNING)]
    every = [Resources(node["cpu"], node["memory_bytes"], node["gpu"]) for node in ready]
    total = sum(every, Resources(0, 0, 0))
    return dict(free_of(total, [_used(row) for row in active]).__dict__) if ready else _free([])


def problem(
    plane: Plane, connection: Connection, row: Row[Any], present: Sequence[Row[Any]]
) -> str | None:
    """What keeps the target from working as it should, in a sentence."""
    told = plane.problems.get(row.target) or "; ".join(failures(row))
    if told:
        return told
    broken = [node for node in present if node.state == nodes.UNUSABLE]
    if broken:
        number = f"{len(broken)} node{'s are' if len(broken) > 1 else ' is'}"
        return f"{number} unusable: {broken[-1].reason}"
    failing = [node for node in present if node.state == nodes.PREPARING and node.reason]
    if failing:
        return f"a node cannot be started: {failing[-1].reason}"
    return _too_few(plane, connection, row, len(present))


def doing(plane: Plane, present: Sequence[Row[Any]]) -> str | None:
    """What a node that is being made waits for just now."""
    return next(filter(None, (plane.doings.get(node.id) for node in present)), None)


def failures(row: Row[Any]) -> list[str]:
    """Why it could not be attached."""
    errors = row.provisioning_errors if row.provisioning_state == "Failed" else []
    return [str(error["message"]) for error in errors]


def _too_few(plane: Plane, connection: Connection, row: Row[Any], count: int) -> str | None:
    wanted = cluster_of(row.kind, row.config).min_nodes if row.kind in LOCATED else 0
    resting = row.stopped_at is not None or row.deleting_at is not None
    if resting or count >= wanted or plane.rooms.get(row.target) != 0:
        return None
    return f"{count} of the {wanted} nodes that it should have; {crowded(connection, row)}"


def _offer(plane: Plane, connection: Connection, row: Row[Any]) -> tuple[str, list[str]]:
    """The size that its nodes have, and what was asked for and means something else here."""
    location, told = row.config["location"], []
    if location and is_region(location):
        told.append(f"location {location!r} is a region of Azure: its nodes are on this machine")
    if row.config.get("ssh_port") and not _listens_where_told(connection, row):
        told.append(
            f"ssh_port {row.config['ssh_port']} means nothing at site {site_name(location)!r}: "
            "a machine there is no container, and listens where it does"
        )
    try:
        site = open_site(plane, site_name(location))
        size, notice = nearest(row.config["vm_size"], site.sizes())
        more = [notice, beyond(connection, row, site, size)]
    except WherryError:
        return "", told  # the target's problem says more
    return size.name, [*told, *filter(None, more)]


def _listens_where_told(connection: Connection, row: Row[Any]) -> bool:
    site = sites.find(connection, site_name(row.config["location"]))
    return site is not None and site.kind == CONTAINER


def _status(
    row: Row[Any], present: Sequence[Row[Any]], shown: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    counts = dict.fromkeys(nodes.STATES, 0)
    for node in shown:
        counts[node["state"]] += 1
    moving = counts[nodes.PREPARING] + counts[nodes.LEAVING]
    config = cluster_of(row.kind, row.config)
    return {
        "current_node_count": len(shown),
        "target_node_count": len(shown) - counts[nodes.LEAVING],
        "node_state_counts": counts,
        "allocation_state": RESIZING if moving else STEADY,
        "allocation_state_transition_time": iso(
            max([row.modified_at, *(node.state_since for node in present)])
        ),
        "errors": [
            {"code": "NodeUnusable", "message": f"{node.name or node.id}: {node.reason}"}
            for node in present
            if node.state == nodes.UNUSABLE
        ],
        "scale_settings": {
            "min_nodes": config.min_nodes,
            "max_nodes": config.max_nodes,
            "idle_seconds": config.idle_seconds,
        },
        "vm_size": config.vm_size,
        "vm_priority": config.vm_priority,
    }


def _node(node: Row[Any], run_id: str | None, begun: datetime | None) -> dict[str, Any]:
    working = run_id is not None and node.state == nodes.IDLE
    idle = node.idle_since if node.state == nodes.IDLE else None
    return {
        "id": node.id,
        "name": node.name or node.id,
        "state": nodes.RUNNING if working else node.state,
        "reason": node.reason,
        "run_id": run_id,
        "cpu": node.cpu,
        "memory_bytes": node.memory_bytes,
        "gpu": len(node.gpus),
        "size": node.size,
        "price_per_hour": node.price,
        "address": node.config.get("address"),
        "port": node.config.get("port"),
        "username": node.config.get("username") or "",
        "jump": node.config.get("jump") or "",
        "host_key": node.config.get("host_key") or "",
        "jump_host_keys": node.config.get("jump_host_keys") or [],
        "certified": bool(node.config.get("container") and node.config.get("port")),
        "created_at": iso(node.created_at),
        "since": iso((begun if working else idle) or node.state_since),
    }


def local(plane: Plane) -> dict[str, Any]:
    """This machine, which every workspace has."""
    driver, at = plane.drivers.get(LOCAL), iso(plane.started_at)
    trouble: str | None = None
    with plane.database.read() as connection:
        active = [row for each in BUILT_IN for row in attempts.active(connection, each)]
        waiting = _waiting(connection, LOCAL)
    try:
        health = driver.check() if driver is not None else None
    except TargetUnavailableError as error:
        health, trouble = None, error.message
    fixed = {"name": LOCAL, "type": LOCAL, "kind": LOCAL, "location": LOCAL, "config": {}}
    return {
        **fixed,
        "tags": {},
        "description": "this machine",
        "provisioning_state": "Succeeded",
        "provisioning_errors": [],
        "created_by": None,
        "created_at": at,
        "modified_at": at,
        "state": "Running",
        "problem": trouble or plane.problems.get(LOCAL),
        "doing": None,
        "notices": [],
        "node_size": "",
        "status": None,
        "nodes": _nodes_of(health, active, at, {}),
        "free": _left(health, active),
        "active": len(active),
        "waiting": waiting,
    }


def _nodes_of(
    health: Health | None, active: Sequence[Any], at: str | None, config: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The nodes of a machine that is there without our doing, as far as it was seen."""
    return [
        {
            "id": node.name,
            "name": node.name,
            "state": nodes.RUNNING if active else nodes.IDLE,
            "reason": "",
            "run_id": active[0].run_id if active else None,
            **node.resources.__dict__,
            "size": LOCAL if not config else "",
            "price_per_hour": 0.0,
            "address": config.get("address"),
            "port": config.get("port"),
            "created_at": at,
            "since": iso(active[0].created_at) if active else at,
        }
        for node in (health.nodes if health else ())
    ]


def _left(health: Health | None, active: Sequence[Any]) -> dict[str, Any]:
    """What of a machine nobody uses."""
    every = [node.resources for node in health.nodes] if health else []
    total = sum(every, Resources(0, 0, 0))
    return dict(free_of(total, [_used(row) for row in active]).__dict__)


def _used(row: attempts.AttemptRow) -> Used:
    return Used(Resources(row.cpu, row.memory_bytes, len(row.gpus)), tuple(row.gpus))
