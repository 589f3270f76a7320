"""What runs and targets cost: written down when an attempt ends and when a node is removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.cost import Use, days
from wherry.core.targets import name_of
from wherry.store import costs, nodes, workspaces

from .plane import Plane

BY = ("run", "target", "day")


def attempt_ended(connection: Connection, run: Row[Any], attempt: Any, now: datetime) -> None:
    """The node is free again, and its time goes to the run: in one transaction with its end."""
    node = nodes.find(connection, attempt.node_id)
    if node is None:
        return
    nodes.change(connection, node.id, {"idle_since": now})
    use = Use(node.target, node.id, attempt.created_at.timestamp(), now.timestamp(), node.price)
    costs.add(connection, run.workspace_id, node.target, run.id, _by_day(use))


def node_removed(connection: Connection, workspace_id: str, node: Row[Any], now: datetime) -> None:
    """All of its time, from when it was asked for."""
    use = Use(node.target, node.id, node.created_at.timestamp(), now.timestamp(), node.price)
    costs.add(connection, workspace_id, node.target, costs.WHOLE, _by_day(use))


def every(plane: Plane, workspace_name: str, by: str) -> list[dict[str, Any]]:
    """Up to this moment, with what goes on."""
    now = plane.now().timestamp()
    found: dict[tuple[str, ...], list[float]] = {}
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        for row in costs.sums(connection, workspace.id, by):
            found[tuple(row[:-2])] = [row.node_seconds, row.cost]
        going_on = costs.present(connection, workspace.id, by)
    for row in going_on:
        run_id = row.run_id if by == "run" else None
        use = Use(row.target, "", row.since.timestamp(), now, row.price, run_id)
        for day, seconds, cost in _by_day(use):
            key = {"run": (row.target, run_id or ""), "target": (row.target,)}
            sums = found.setdefault(key.get(by, (row.target, day)), [0.0, 0.0])
            sums[0] += seconds
            sums[1] += cost
    return [_line(by, key, *sums) for key, sums in sorted(found.items())]


def _line(by: str, key: tuple[str, ...], seconds: float, cost: float) -> dict[str, Any]:
    line: dict[str, Any] = {"target": name_of(key[0]), "run_id": None, "day": None}
    if len(key) > 1:
        line["run_id" if by == "run" else "day"] = key[1]
    return {**line, "node_seconds": round(seconds, 3), "cost": round(cost, 6)}


def _by_day(use: Use) -> Iterator[tuple[str, float, float]]:
    for day, part in days(use):
        yield day, part.seconds, part.cost
