"""The hosts of a pool as people see them: who has which, and which cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import HostConfig
from wherry.store import lost_machines, nodes, sites

from .plane import Plane
from .sightings import SET_ASIDE, UNREACHABLE

FREE, TAKEN = "free", "taken"
STATES = (FREE, TAKEN, UNREACHABLE, SET_ASIDE)


def hosts_of(plane: Plane, connection: Connection, row: Row[Any]) -> list[dict[str, Any]]:
    present = [node for node in sites.nodes_at(connection, row.name) if node.config]
    by_place = {(node.config["address"], node.config["port"]): node for node in present}
    busy: dict[str, str] = {}
    for target in {node.target for node in present}:
        busy.update(nodes.busy(connection, target))
    hosts = [HostConfig(**host) for host in row.config["hosts"]]
    found = [
        _host(plane, row.name, host, by_place.get((host.address, host.port)), busy)
        for host in hosts
    ]
    lost = {
        (each.config["address"], each.config["port"]): each
        for each in lost_machines.at_site(connection, row.name)
    }
    return [_lost(each, lost.get((each["address"], each["port"]))) for each in found]


def counts(hosts: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many there are in each state."""
    found = dict.fromkeys(STATES, 0)
    for host in hosts:
        found[host["state"]] += 1
    return found


def problem(hosts: Sequence[dict[str, Any]]) -> str | None:
    """What is wrong with hosts, in a sentence."""
    broken = [host for host in hosts if host["state"] in (UNREACHABLE, SET_ASIDE)]
    if not broken:
        return None
    return f"{len(broken)} of {len(hosts)} hosts cannot be used: {broken[0]['reason']}"


def _host(
    plane: Plane, site: str, host: HostConfig, node: Row[Any] | None, busy: dict[str, str]
) -> dict[str, Any]:
    state, reason = _state(plane, site, host, node)
    return {
        "name": host.name,
        "address": host.address,
        "port": host.port,
        "username": host.username,
        **_owned(plane, site, host, node),
        "price_per_hour": host.price_per_hour,
        "state": state,
        "reason": reason,
        "target": node.target if node is not None else None,
        "node": node.id if node is not None else None,
        "run_id": busy.get(node.id) if node is not None else None,
    }


def _lost(host: dict[str, Any], lost: Row[Any] | None) -> dict[str, Any]:
    if lost is None:
        return host
    reason = f"declared lost by {lost.given_up_by}; it is used again when it answers"
    return {**host, "state": SET_ASIDE, "reason": reason}


def _state(plane: Plane, site: str, host: HostConfig, node: Row[Any] | None) -> tuple[str, str]:
    seen = plane.sightings.get((site, host.address, host.port))
    if node is not None and node.state != nodes.UNUSABLE:
        return TAKEN, node.reason
    if node is not None:
        return (seen.state if seen is not None else "") or SET_ASIDE, node.reason
    return (seen.state, seen.reason) if seen is not None and seen.reason else (FREE, "")


def _owned(plane: Plane, site: str, host: HostConfig, node: Row[Any] | None) -> dict[str, Any]:
    """What was declared of it, else what was found; None for what nobody knows yet."""
    if node is not None and node.ready_at is not None:
        return {"cpu": node.cpu, "memory_bytes": node.memory_bytes, "gpu": len(node.gpus)}
    seen = plane.sightings.get((site, host.address, host.port))
    found: dict[str, Any] = dict(seen.owned.__dict__) if seen and seen.owned else {}
    declared = {"cpu": host.cores, "memory_bytes": host.memory_bytes, "gpu": host.gpus}
    return {what: found.get(what) if said is None else said for what, said in declared.items()}
