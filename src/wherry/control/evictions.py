"""Nodes of low priority are taken away: by hand, or because a dedicated cluster needs the room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import may_be_taken, site_name
from wherry.core.errors import ConflictError, NotFoundError
from wherry.core.gang import PREEMPTED
from wherry.core.nodes import NodeState
from wherry.core.preemption import evict as choose
from wherry.core.targets import name_of
from wherry.store import attempts, computes, nodes, workspaces

from .cluster_views import node_views
from .computes import get, show
from .plane import Plane


def evict(plane: Plane, workspace_name: str, name: str, node_id: str | None) -> dict[str, Any]:
    """As a cloud would do it, to see what becomes of the run."""
    with plane.write() as connection:
        row = get(connection, workspaces.get(connection, workspace_name), name, lock=True)
        if not may_be_taken(row.config):
            raise ConflictError(
                f"nodes of compute target {name!r} are dedicated: nobody takes them away",
                hint="create a cluster with vm_priority='lowpriority'",
            )
        chosen = _named(connection, row, node_id) if node_id else _working(connection, row)
        _take(plane, connection, row.target, chosen, "evicted by hand")
    plane.hint(row.target)
    return show(plane, workspace_name, name)


def make_room(
    plane: Plane,
    connection: Connection,
    row: Row[Any],
    wanted: int,
    helps: Callable[[Row[Any]], bool],
) -> list[str]:
    """The clusters of low priority that give nodes of the same site to this one, which needs so
    many more. Only those are taken whose place ``helps``.
    """
    site = site_name(row.config["location"])
    others = [each for each in computes.every(connection) if _gives(each, site)]
    there = [node for each in others for node in nodes.present(connection, each.target)]
    present = [node for node in there if helps(node)]
    busy = {k: v for each in others for k, v in nodes.busy(connection, each.target).items()}
    reason = f"wanted by compute target {name_of(row.target)}"
    by_id = {node.id: node for node in present}
    given = [by_id[node_id] for node_id in choose(wanted, node_views(present, busy))]
    for node in given:
        _take(plane, connection, node.target, node, reason)
    return sorted({node.target for node in given})


def _gives(row: Row[Any], site: str) -> bool:
    return bool(may_be_taken(row.config) and site_name(row.config["location"]) == site)


def _named(connection: Connection, row: Row[Any], node_id: str) -> Row[Any]:
    for node in nodes.present(connection, row.target):
        if node_id in (node.id, node.name):
            return node
    raise NotFoundError(
        f"compute target {row.name!r} has no node {node_id!r}",
        hint=f"wherry compute list-nodes {row.name} shows them",
    )


def _working(connection: Connection, row: Row[Any]) -> Row[Any]:
    """One with a run, else one without."""
    present = nodes.present(connection, row.target)
    busy = nodes.busy(connection, row.target)
    usable = [node for node in present if node.state == nodes.IDLE]
    found = sorted(usable, key=lambda node: node.id not in busy)
    if not found:
        raise ConflictError(f"compute target {row.name!r} has no node that could be evicted")
    return found[0]


def _take(plane: Plane, connection: Connection, target: str, node: Row[Any], reason: str) -> None:
    """Its run is asked to end, and queues again; the node goes when nothing is left on it."""
    now = plane.now()
    if node.state in (NodeState.LEAVING.value, NodeState.PREEMPTED.value):
        return
    held = [each for each in attempts.active(connection, target) if each.node_id == node.id]
    for attempt in held:
        if attempt.stop_wanted_at is None:
            asked = {"stop_wanted_at": now, "stop_reason": PREEMPTED}
            attempts.change(connection, attempt.id, asked)
    state = nodes.PREEMPTED if held else nodes.LEAVING
    nodes.move(connection, node.id, state, now, reason=reason)
