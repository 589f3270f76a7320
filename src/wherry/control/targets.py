"""Compute targets as people see them: what they own and what is free."""

from __future__ import annotations

from typing import Any

from wherry.core.errors import TargetUnavailableError
from wherry.core.placement import Used, free_of
from wherry.core.resources import Resources
from wherry.store import attempts

from .plane import Plane


def every(plane: Plane) -> list[dict[str, Any]]:
    return [_describe(plane, name) for name in sorted(plane.drivers)]


def _describe(plane: Plane, name: str) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "kind": name, "nodes": [], "problem": None}
    try:
        health = plane.drivers[name].check()
    except TargetUnavailableError as error:
        return {**described, "problem": error.message}
    with plane.database.read() as connection:
        held = [
            Used(Resources(row.cpu, row.memory_bytes, len(row.gpus)), tuple(row.gpus))
            for row in attempts.active(connection, name)
        ]
    total = sum((node.resources for node in health.nodes), Resources(0, 0, 0))
    described["nodes"] = [
        {"name": node.name, **node.resources.__dict__, "gpus": list(node.gpus)}
        for node in health.nodes
    ]
    return {**described, "free": dict(free_of(total, held).__dict__), "active": len(held)}
