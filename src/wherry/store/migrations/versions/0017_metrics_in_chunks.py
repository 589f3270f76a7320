"""Points of metrics in chunks, and the last value of each beside its name."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_BLOCK = 4096
_NO_STEP = -(2**63)


def upgrade() -> None:
    _make_tables()
    _move(op.get_bind())
    op.drop_table("metric_points")
    op.drop_table("metrics")
    op.create_index(
        "ix_metric_series_by_value",
        "metric_series",
        ["experiment_id", sa.text("substr(name, 1, 100)"), "last_value", "run_seq"],
        sqlite_where=sa.text("last_value IS NOT NULL"),
        postgresql_where=sa.text("last_value IS NOT NULL"),
    )


def _make_tables() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "metric_series",
        sa.Column("id", row_id, autoincrement=True),
        sa.Column("run_seq", row_id, nullable=False),
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(1000), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("point_count", sa.BigInteger(), nullable=False),
        sa.Column("tail_seq", sa.BigInteger(), nullable=False),
        sa.Column("newest_at", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("last_value", sa.Double()),
        sa.Column("last_data", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_metric_series"),
        sa.ForeignKeyConstraint(["run_seq"], ["runs.seq"], name="fk_metric_series_run_seq"),
        sa.UniqueConstraint("run_seq", "name", name="uq_metric_series_run_seq_name"),
    )
    op.create_table(
        "metric_chunks",
        sa.Column("metric_id", row_id, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("oldest_at", sa.BigInteger(), nullable=False),
        sa.Column("newest_at", sa.BigInteger(), nullable=False),
        sa.Column("form", sa.String(1), nullable=False),
        sa.Column("times", sa.LargeBinary(), nullable=False),
        sa.Column("steps", sa.LargeBinary()),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("metric_id", "seq", name="pk_metric_chunks"),
        sa.ForeignKeyConstraint(
            ["metric_id"], ["metric_series.id"], name="fk_metric_chunks_metric_id"
        ),
    )


_METRICS = sa.text(
    """SELECT m.id, r.seq AS run_seq, r.experiment_id, m.name, m.kind
    FROM metrics m JOIN runs r ON r.id = m.run_id
    WHERE m.id > :after ORDER BY m.id LIMIT 1000"""
)
_POINTS = sa.text(
    """SELECT metric_id, "at", step, value, data FROM metric_points
    WHERE metric_id BETWEEN :first AND :last ORDER BY metric_id, seq"""
).execution_options(stream_results=True, yield_per=_BLOCK)
_NEW_CHUNK = sa.text(
    """INSERT INTO metric_chunks
    (metric_id, seq, count, oldest_at, newest_at, form, times, steps, data)
    VALUES (:metric_id, :seq, :count, :oldest_at, :newest_at, :form, :times, :steps, :data)"""
)
_NEW_SERIES = sa.text(
    """INSERT INTO metric_series (id, run_seq, experiment_id, name, kind, point_count, tail_seq,
    newest_at, last_step, last_at, last_value, last_data)
    VALUES (:id, :run_seq, :experiment_id, :name, :kind, :point_count, :tail_seq,
    :newest_at, :last_step, :last_at, :last_value, :last_data)"""
)


def _move(connection: sa.Connection) -> None:
    after = -1
    while metrics := {row.id: row for row in connection.execute(_METRICS, {"after": after})}:
        after = max(metrics)
        _move_some(connection, metrics)
    if connection.dialect.name == "postgresql":
        connection.execute(
            sa.text(
                "SELECT setval(pg_get_serial_sequence('metric_series', 'id'), "
                "(SELECT coalesce(max(id), 0) + 1 FROM metric_series), false)"
            )
        )


def _move_some(connection: sa.Connection, metrics: Mapping[int, Any]) -> None:
    moved: list[_Series] = []
    ready: list[dict[str, Any]] = []
    points = connection.execute(_POINTS, {"first": min(metrics), "last": max(metrics)})
    for metric_id, rows in groupby(points, key=lambda row: row.metric_id):
        if metric_id not in metrics:
            continue
        series = _Series()
        moved.append(series)
        while block := list(islice(rows, _BLOCK)):
            ready.append({"metric_id": metric_id, **series.take(block)})
        series.fields.update(metrics[metric_id]._mapping)
    if moved:
        connection.execute(_NEW_SERIES, [series.fields for series in moved])
        connection.execute(_NEW_CHUNK, ready)


class _Series:
    """What is found out of one metric while its points go by."""

    def __init__(self) -> None:
        self._best: tuple[Any, ...] = ()
        self.fields: dict[str, Any] = {"point_count": 0, "newest_at": 0}

    def take(self, rows: list[Any]) -> dict[str, Any]:
        first = self.fields["point_count"]
        values = [row.value if row.data is None else json.loads(row.data) for row in rows]
        for place, (row, value) in enumerate(zip(rows, values, strict=True), first):
            step = place if row.step is None else max(row.step, _NO_STEP + 1)
            number = _number(value)
            rank = (step, row.at, -math.inf if number is None else number)
            if not self._best or rank >= self._best[:3]:
                self._best = (*rank, value)
        count = first + len(rows)
        step, at, _, value = self._best
        self.fields.update(
            point_count=count,
            tail_seq=count if count % _BLOCK == 0 else first,
            newest_at=max(self.fields["newest_at"], *[row.at for row in rows]),
            last_step=step,
            last_at=at,
            last_value=_number(value),
            last_data=_text(value),
        )
        return {"seq": first, **_packed(rows, values)}


def _packed(rows: list[Any], values: list[Any]) -> dict[str, Any]:
    times = [row.at for row in rows]
    steps = None
    if any(row.step is not None for row in rows):
        steps = [_NO_STEP if row.step is None else max(row.step, _NO_STEP + 1) for row in rows]
    form = "j"
    if {type(value) for value in values} == {float}:
        form = "d"
    return {
        "count": len(rows),
        "oldest_at": min(times),
        "newest_at": max(times),
        "form": form,
        "times": struct.pack(f"<{len(times)}q", *times),
        "steps": None if steps is None else struct.pack(f"<{len(steps)}q", *steps),
        "data": json.dumps(values, separators=(",", ":")).encode()
        if form == "j"
        else struct.pack(f"<{len(values)}d", *values),
    }


def _number(value: Any) -> float | None:
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number


def _text(value: Any) -> str | None:
    if type(value) is float and not math.isnan(value):
        return None
    text = "null" if isinstance(value, (list, dict)) else json.dumps(value)
    return text if len(text) <= 1000 else "null"
