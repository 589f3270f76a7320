"""All metrics of a run in little: the last value of each and, for a picture, its outline."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from wherry.core.metrics import SCALAR, shape
from wherry.core.sampling import outline

from . import chunks
from .metrics import last_value
from .tables import series


def of_run(connection: Connection, seq: int, points: int | None) -> dict[str, dict[str, Any]]:
    """By name in the order of logging, each with ``kind``, ``count`` and, of a scalar, the ``last``
    value. With ``points`` scalars have about so many ``steps`` (without one, the place is it) and
    ``values``, and other kinds their ``value``.
    """
    query = select(series).where(series.c.run_seq == seq)
    rows = sorted(connection.execute(query), key=lambda row: row.id)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        told = {"kind": row.kind, "count": row.point_count}
        if row.kind == SCALAR:
            told["last"] = last_value(row)
        if points is not None:
            told.update(_drawn(connection, row, points))
        found[row.name] = told
    return found


def _drawn(connection: Connection, row: Any, points: int) -> dict[str, Any]:
    logged = chunks.read(connection, [row.id]).get(row.id)
    if logged is None:
        return {}
    if row.kind != SCALAR:
        return {"value": shape(row.kind, logged.values)}
    places = outline(logged.values, points)
    shown = logged.chosen(places)
    steps = [
        place if step is None else step for place, step in zip(places, shown.steps, strict=True)
    ]
    return {"steps": steps, "values": shown.values}
