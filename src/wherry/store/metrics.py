"""Metrics: appended in batches, read back as series, and the last values of many runs at once."""

from __future__ import annotations

import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from wherry.core.metrics import SCALAR, Logged, shape

from . import chunks
from .database import batches
from .points import Points, bounded
from .prepared import Prepared
from .tables import series

_LAST_TEXT = 1000
_MICROSECONDS = 1_000_000
_LATEST = 253402300000
_BY_NAME = Prepared(
    select(series).where(
        series.c.run_seq == bindparam("run_seq"), series.c.name == bindparam("name")
    )
)
_CHANGE = Prepared(update(series).where(series.c.id == bindparam("metric_id")))


def append(
    connection: Connection, run: Row[Any], entries: Iterable[Logged], *, once: bool = False
) -> None:
    """Add the entries of one run, in order. With ``once`` those that are there already, with the
    same step, time and value, are left out.
    """
    given: dict[str, Points] = defaultdict(Points)
    kinds: dict[str, str] = {}
    for entry in entries:
        kinds.setdefault(entry.name, entry.kind)
        given[entry.name].add(_moment(entry.at), bounded(entry.step), entry.value)
    known = {row.name: row for row in _named(connection, run.seq, list(given))}
    if once:
        given = {name: _unknown(connection, known.get(name), new) for name, new in given.items()}
        given = {name: new for name, new in given.items() if new}
    lasts = {name: _last(known.get(name), new) for name, new in given.items()}
    fresh = [name for name in given if name not in known]
    ids = {name: row.id for name, row in known.items()}
    ids.update(_add(connection, run, {name: (kinds[name], lasts[name]) for name in fresh}))
    places = {
        name: chunks.Place(ids[name], row.point_count, row.tail_seq)
        if (row := known.get(name)) is not None
        else chunks.Place(ids[name], 0, 0)
        for name in given
    }
    ends = chunks.append(connection, [(places[name], new) for name, new in given.items()])
    _CHANGE.change_many(
        connection,
        [
            {
                "metric_id": place.metric_id,
                "point_count": place.points + len(given[name]),
                "tail_seq": ends[place.metric_id],
                **lasts[name],
            }
            for name, place in places.items()
        ],
    )


def shaped(
    connection: Connection, seqs: Sequence[int], name: str | None = None
) -> dict[int, dict[str, Any]]:
    """Every metric of each run as Azure ML shows it."""
    found: dict[int, dict[str, Any]] = {seq: {} for seq in seqs}
    rows = _rows(connection, seqs, name)
    points = chunks.read(connection, [row.id for row in rows])
    for row in rows:
        if row.id in points:
            found[row.run_seq][row.name] = shape(row.kind, points[row.id].values)
    return found


def history(connection: Connection, seq: int, name: str) -> Points:
    """Every point of one metric, in the order of logging."""
    row = _BY_NAME.first(connection, {"run_seq": seq, "name": name})
    return Points() if row is None else chunks.read(connection, [row.id]).get(row.id, Points())


def last_values(connection: Connection, seqs: Sequence[int]) -> dict[int, dict[str, Row[Any]]]:
    """Of each run the scalars by name, each with ``last_value``, ``last_step`` and ``last_at``."""
    found: dict[int, dict[str, Row[Any]]] = {seq: {} for seq in seqs}
    for row in _rows(connection, seqs):
        if row.kind == SCALAR:
            found[row.run_seq][row.name] = row
    return found


def last_value(row: Row[Any]) -> Any:
    return row.last_value if row.last_data is None else json.loads(row.last_data)


def remove(connection: Connection, seqs: Sequence[int]) -> None:
    chunks.remove(connection, seqs)
    for batch in batches(seqs):
        connection.execute(delete(series).where(series.c.run_seq.in_(batch)))


def _named(connection: Connection, seq: int, names: Sequence[str]) -> list[Row[Any]]:
    if len(names) == 1:
        return _BY_NAME.rows(connection, {"run_seq": seq, "name": names[0]})
    mine = select(series).where(series.c.run_seq == seq)
    return [
        row
        for batch in batches(names)
        for row in connection.execute(mine.where(series.c.name.in_(batch)))
    ]


def _rows(connection: Connection, seqs: Sequence[int], name: str | None = None) -> list[Row[Any]]:
    """In the order in which they were first logged."""
    query = select(series) if name is None else select(series).where(series.c.name == name)
    found = [
        row
        for batch in batches(seqs)
        for row in connection.execute(query.where(series.c.run_seq.in_(batch)))
    ]
    return sorted(found, key=lambda row: row.id)


def _add(
    connection: Connection, run: Row[Any], fresh: Mapping[str, tuple[str, dict[str, Any]]]
) -> dict[str, int]:
    if not fresh:
        return {}
    rows = [
        {
            "run_seq": run.seq,
            "experiment_id": run.experiment_id,
            "name": name,
            "kind": kind,
            "point_count": 0,
            "tail_seq": 0,
            **last,
        }
        for name, (kind, last) in fresh.items()
    ]
    added = connection.execute(insert(series).returning(series.c.name, series.c.id), rows)
    return {str(name): int(number) for name, number in added}


def _last(row: Row[Any] | None, new: Points) -> dict[str, Any]:
    """The point that counts as the last one, among the new and the one until now."""
    first = 0 if row is None else row.point_count
    steps = [first + place if step is None else step for place, step in enumerate(new.steps)]
    ranks = list(zip(steps, new.times, map(_rank, new.values), range(len(new)), strict=True))
    best = max(ranks)
    newest = max(new.times)
    if row is not None:
        newest = max(newest, row.newest_at)
        before = (row.last_step, row.last_at, _rank(row.last_value))
        if before > best[:3]:
            kept = ("last_step", "last_at", "last_value", "last_data")
            return {"newest_at": newest, **{name: getattr(row, name) for name in kept}}
    return {
        "newest_at": newest,
        "last_step": best[0],
        "last_at": best[1],
        **_split(new.values[best[3]]),
    }


def _rank(value: Any) -> float:
    number = _number(value)
    return -math.inf if number is None else number


def _number(value: Any) -> float | None:
    """What both databases compare alike: no NaN."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number


def _split(value: Any) -> dict[str, Any]:
    number = _number(value)
    if type(value) is float and number is not None:
        return {"last_value": number, "last_data": None}
    text = json.dumps(value) if not isinstance(value, (list, dict)) else "null"
    return {"last_value": number, "last_data": text if len(text) <= _LAST_TEXT else "null"}


def _unknown(connection: Connection, row: Row[Any] | None, new: Points) -> Points:
    """Without what is there already, or twice among the new ones."""
    seen = set()
    if row is not None and min(new.times) <= row.newest_at:
        there = chunks.of_times(connection, row.id, min(new.times), max(new.times))
        seen = {_identity(there, place) for place in range(len(there))}
    chosen = []
    for place in range(len(new)):
        identity = _identity(new, place)
        if identity not in seen:
            seen.add(identity)
            chosen.append(place)
    return new if len(chosen) == len(new) else new.chosen(chosen)


def _identity(points: Points, place: int) -> tuple[int, int | None, bytes]:
    value = points.values[place]
    exact = struct.pack("<d", value) if type(value) is float else json.dumps(value).encode()
    return points.times[place], points.steps[place], exact


def _moment(at: float) -> int:
    return round(at * _MICROSECONDS) if 0 <= at < _LATEST else 0
