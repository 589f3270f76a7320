"""What was used, by target, day and run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from .tables import costs

WHOLE = ""
"""In the place of a run: what the nodes of the target took in all, at work or idle."""


def add(
    connection: Connection,
    workspace_id: str,
    target: str,
    run_id: str,
    days: Iterable[tuple[str, float, float]],
) -> None:
    """Node-seconds and their cost, day by day."""
    for day, seconds, cost in days:
        mine = {"target": target, "day": day, "run_id": run_id}
        more = (
            update(costs)
            .where(*[costs.c[name] == value for name, value in mine.items()])
            .values(node_seconds=costs.c.node_seconds + seconds, cost=costs.c.cost + cost)
        )
        if connection.execute(more).rowcount == 0:
            row = {**mine, "workspace_id": workspace_id, "node_seconds": seconds, "cost": cost}
            connection.execute(insert(costs).values(**row))


def sums(connection: Connection, workspace_id: str, by: str) -> list[Row[Any]]:
    """Of each run, or of each target and day that its nodes were there."""
    columns = {"run": [costs.c.target, costs.c.run_id], "target": [costs.c.target]}
    group = columns.get(by, [costs.c.target, costs.c.day])
    ours = costs.c.workspace_id == workspace_id
    which = costs.c.run_id != WHOLE if by == "run" else costs.c.run_id == WHOLE
    query = select(
        *group,
        func.sum(costs.c.node_seconds).label("node_seconds"),
        func.sum(costs.c.cost).label("cost"),
    ).where(ours, which)
    return list(connection.execute(query.group_by(*group).order_by(*group)))
