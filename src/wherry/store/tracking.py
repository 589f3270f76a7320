"""Metrics: appended in batches, read back as series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from wherry.core.errors import ConflictError
from wherry.core.metrics import Logged, join_value, shape, split_value

from .database import batches
from .tables import points, series, streams


def take_stream(connection: Connection, run_id: str, name: str, offset: int, length: int) -> int:
    """How many of the bytes are not new (0 when all are), and remember that all arrived.

    A gap raises ``ConflictError`` with the size expected.
    """
    size = stream_sizes(connection, run_id).get(name)
    if offset > (size or 0):
        raise ConflictError(
            f"bytes {size or 0} to {offset} of stream {name!r} are missing", size=size or 0
        )
    known = (size or 0) - offset
    if size is None:
        connection.execute(
            insert(streams).values(run_id=run_id, name=name, size_bytes=offset + length)
        )
    elif length > known:
        connection.execute(
            update(streams)
            .where(streams.c.run_id == run_id, streams.c.name == name)
            .values(size_bytes=offset + length)
        )
    return min(known, length)


def stream_sizes(connection: Connection, run_id: str) -> dict[str, int]:
    rows = connection.execute(
        select(streams.c.name, streams.c.size_bytes).where(streams.c.run_id == run_id)
    )
    return {str(name): int(size) for name, size in rows}


def append(connection: Connection, run_id: str, entries: Sequence[Logged]) -> None:
    """Add the entries of one run, in order."""
    counts = _series_of(connection, run_id, entries)
    rows = []
    for entry in entries:
        metric_id, count = counts[entry.name]
        rows.append(
            {
                "metric_id": metric_id,
                "seq": count,
                "at": datetime.fromtimestamp(_plausible(entry.at), UTC),
                "step": _bounded(entry.step),
                **split_value(entry.value),
            }
        )
        counts[entry.name] = (metric_id, count + 1)
    if rows:
        connection.execute(insert(points), rows)
    for metric_id, count in counts.values():
        connection.execute(update(series).where(series.c.id == metric_id).values(point_count=count))


def shaped(connection: Connection, run_id: str, name: str | None = None) -> dict[str, Any]:
    """Every metric of a run as Azure ML shows it."""
    query = (
        select(series.c.name, series.c.kind, points.c.value, points.c.data)
        .join(points, points.c.metric_id == series.c.id)
        .where(series.c.run_id == run_id)
        .order_by(series.c.id, points.c.seq)
    )
    if name is not None:
        query = query.where(series.c.name == name)
    rows: Iterator[Any] = iter(connection.execute(query))
    return {
        key: shape(kind, [join_value(row.value, row.data) for row in group])
        for (key, kind), group in groupby(rows, key=lambda row: (row.name, row.kind))
    }


def history(connection: Connection, run_id: str, name: str) -> list[dict[str, Any]]:
    rows = connection.execute(
        select(points)
        .join(series, points.c.metric_id == series.c.id)
        .where(series.c.run_id == run_id, series.c.name == name)
        .order_by(points.c.seq)
    )
    return [
        {"step": row.step, "at": row.at, "value": join_value(row.value, row.data)} for row in rows
    ]


def remove(connection: Connection, run_ids: Sequence[str]) -> None:
    for batch in batches(run_ids):
        mine = select(series.c.id).where(series.c.run_id.in_(batch))
        connection.execute(delete(points).where(points.c.metric_id.in_(mine)))
        connection.execute(delete(series).where(series.c.run_id.in_(batch)))
        connection.execute(delete(streams).where(streams.c.run_id.in_(batch)))


def _series_of(
    connection: Connection, run_id: str, entries: Sequence[Logged]
) -> dict[str, tuple[int, int]]:
    names = {entry.name: entry.kind for entry in entries}
    mine = select(series).where(series.c.run_id == run_id)
    found = {
        row.name: (row.id, row.point_count)
        for batch in batches(names)
        for row in connection.execute(mine.where(series.c.name.in_(batch)))
    }
    for name, kind in names.items():
        if name not in found:
            added = insert(series).values(run_id=run_id, name=name, kind=kind, point_count=0)
            found[name] = (connection.execute(added.returning(series.c.id)).scalar_one(), 0)
    return found


def _bounded(step: int | None) -> int | None:
    return None if step is None else max(-(2**63), min(step, 2**63 - 1))


def _plausible(at: float) -> float:
    return at if 0 <= at < 253402300000 else 0.0
