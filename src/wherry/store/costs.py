"""What was used, by target, day and run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from .tables import attempts, computes, costs, nodes, runs

WHOLE = ""
"""In the place of a run: what the nodes of the target took in all, at work or idle."""

OF_SESSIONS = ".sessions"
"""In the place of a run: what sessions of a compute instance used."""


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


def sums(connection: Connection, workspace_id: str, by: str, *, of_runs: bool) -> list[Row[Any]]:
    """What runs used, or what nodes took in all: of each run, target, or target and day."""
    columns = {"run": [costs.c.target, costs.c.run_id], "target": [costs.c.target]}
    group = columns.get(by, [costs.c.target, costs.c.day])
    ours = costs.c.workspace_id == workspace_id
    which = costs.c.run_id != WHOLE if of_runs else costs.c.run_id == WHOLE
    query = select(
        *group,
        func.sum(costs.c.node_seconds).label("node_seconds"),
        func.sum(costs.c.cost).label("cost"),
    ).where(ours, which)
    return list(connection.execute(query.group_by(*group).order_by(*group)))


def present(connection: Connection, workspace_id: str, *, of_runs: bool) -> list[Row[Any]]:
    """What goes on: attempts on nodes, or nodes; each since when, at which price."""
    mine = computes.c.workspace_id == workspace_id
    if not of_runs:
        query = (
            select(nodes.c.target, nodes.c.created_at.label("since"), nodes.c.price)
            .join(computes, computes.c.target == nodes.c.target)
            .where(mine, nodes.c.removed_at.is_(None))
        )
        return list(connection.execute(query))
    query = (
        select(
            attempts.c.target,
            attempts.c.run_id,
            runs.c.type,
            attempts.c.created_at.label("since"),
            nodes.c.price,
        )
        .join(nodes, nodes.c.id == attempts.c.node_id)
        .join(runs, runs.c.id == attempts.c.run_id)
        .join(computes, computes.c.target == attempts.c.target)
        .where(mine, attempts.c.ended_at.is_(None), attempts.c.released_at.is_(None))
    )
    return list(connection.execute(query))
