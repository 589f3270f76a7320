"""What runs and targets cost: written down when an attempt ends and when a node is removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.cost import Use, days
from wherry.core.sessions import SESSION
from wherry.core.targets import name_of
from wherry.store import costs, nodes, workspaces

from .plane import Plane

BY = ("run", "target", "day")


def attempt_ended(connection: Connection, run: Row[Any], attempt: Any, now: datetime) -> None:
    """The node is free again, and its time goes to the run: in one transaction with its end."""
    node = nodes.find(connection, attempt.node_id)
    if node is None:
        return
    started = {"tries": 0} if attempt.handle is not None else {}
    nodes.change(connection, node.id, {"idle_since": now, **started})
    use = Use(node.target, node.id, attempt.created_at.timestamp(), now.timestamp(), node.price)
    whose = _whose(run.type, run.id)
    costs.add(connection, run.workspace_id, node.target, whose, _by_day(use))


def node_removed(connection: Connection, workspace_id: str, node: Row[Any], now: datetime) -> None:
    """All of its time, from when it was asked for."""
    use = Use(node.target, node.id, node.created_at.timestamp(), now.timestamp(), node.price)
    costs.add(connection, workspace_id, node.target, costs.WHOLE, _by_day(use))


def every(plane: Plane, workspace_name: str, by: str) -> list[dict[str, Any]]:
    """Up to this moment, with what goes on. What nobody submitted is shown on its target alone."""
    now = plane.now().timestamp()
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        used = _sums(connection, workspace.id, by, now, of_runs=True)
        if by == "run":
            used = {key: sums for key, sums in used.items() if key[1] != costs.OF_SESSIONS}
            return [_line(by, key, *sums) for key, sums in sorted(used.items())]
        found = _sums(connection, workspace.id, by, now, of_runs=False)
    return [
        {**_line(by, key, *sums), "idle_seconds": _idle(sums[0], used.get(key))}
        for key, sums in sorted(found.items())
    ]


def _sums(
    connection: Connection, workspace_id: str, by: str, now: float, *, of_runs: bool
) -> dict[tuple[str, ...], list[float]]:
    """Seconds and their cost."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in costs.sums(connection, workspace_id, by, of_runs=of_runs):
        found[tuple(row[:-2])] = [row.node_seconds, row.cost]
    for row in costs.present(connection, workspace_id, of_runs=of_runs):
        run_id = _whose(row.type, row.run_id) if of_runs else None
        use = Use(row.target, "", row.since.timestamp(), now, row.price, run_id)
        for day, seconds, cost in _by_day(use):
            key = {"run": (row.target, run_id or ""), "target": (row.target,)}
            sums = found.setdefault(key.get(by, (row.target, day)), [0.0, 0.0])
            sums[0] += seconds
            sums[1] += cost
    return found


def _whose(type_of_run: str | None, run_id: str) -> str:
    return costs.OF_SESSIONS if type_of_run == SESSION else run_id


def _idle(seconds: float, used: list[float] | None) -> float:
    return round(max(0.0, seconds - (used[0] if used else 0.0)), 3)


def _line(by: str, key: tuple[str, ...], seconds: float, cost: float) -> dict[str, Any]:
    line: dict[str, Any] = {"target": name_of(key[0]), "run_id": None, "day": None}
    if len(key) > 1:
        line["run_id" if by == "run" else "day"] = key[1]
    return {
        **line,
        "node_seconds": round(seconds, 3),
        "idle_seconds": 0.0,
        "cost": round(cost, 6),
    }


def _by_day(use: Use) -> Iterator[tuple[str, float, float]]:
    for day, part in days(use):
        yield day, part.seconds, part.cost
