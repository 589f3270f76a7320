"""The points of metrics, in chunks: few rows to read, and little to write for one more point.

A short last chunk is written anew with what is added to it, a longer one is followed by another,
and those of a full block become one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from .database import batches
from .points import Points, pack, unpack
from .prepared import Prepared
from .tables import chunks, series

BLOCK = 4096
_SHORT = 64
_SMALL_BYTES = 1 << 14
_LARGE_BYTES = 1 << 22

_ADD = Prepared(insert(chunks))
_CHANGE = Prepared(
    update(chunks).where(
        chunks.c.metric_id == bindparam("of_metric"), chunks.c.seq == bindparam("at_seq")
    )
)
_TAIL = Prepared(
    select(chunks).where(
        chunks.c.metric_id == bindparam("metric_id"), chunks.c.seq == bindparam("seq")
    )
)


class Place(NamedTuple):
    """Where a metric's points end."""

    metric_id: int
    points: int
    tail_seq: int


def append(connection: Connection, added: Sequence[tuple[Place, Points]]) -> dict[int, int]:
    """Of each metric where its last chunk begins now."""
    tails = _tails(connection, [place for place, _ in added])
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    full: list[tuple[int, int]] = []
    ends: dict[int, int] = {}
    for place, points in added:
        tail = tails.get(place.metric_id)
        begin = place.tail_seq
        for seq, piece in _pieces(place.points, points):
            if tail is not None:
                tail.extend(piece)
                changed.append({"of_metric": place.metric_id, "at_seq": begin, **pack(tail)})
                tail = None
            else:
                begin = seq
                new.append({"metric_id": place.metric_id, "seq": seq, **pack(piece)})
            if (seq + len(piece)) % BLOCK == 0:
                block = seq + len(piece) - BLOCK
                if begin > block:
                    full.append((place.metric_id, block))
                begin = block + BLOCK
        ends[place.metric_id] = begin
    _ADD.change_many(connection, new)
    _CHANGE.change_many(connection, changed)
    for metric_id, block in full:
        _join(connection, metric_id, block)
    return ends


def read(connection: Connection, metric_ids: Sequence[int]) -> dict[int, Points]:
    """Everything of each."""
    found: dict[int, Points] = defaultdict(Points)
    for row in _rows(connection, metric_ids):
        found[row.metric_id].extend(unpack(row))
    return found


def of_times(connection: Connection, metric_id: int, first: int, last: int) -> Points:
    """The points of those chunks in which some of that time may be."""
    query = (
        select(chunks)
        .where(chunks.c.metric_id == metric_id)
        .where(chunks.c.newest_at >= first, chunks.c.oldest_at <= last)
    )
    found = Points()
    for row in connection.execute(query):
        found.extend(unpack(row))
    return found


def remove(connection: Connection, seqs: Sequence[int]) -> None:
    """Those of the runs."""
    for batch in batches(seqs):
        mine = select(series.c.id).where(series.c.run_seq.in_(batch))
        connection.execute(delete(chunks).where(chunks.c.metric_id.in_(mine)))


def _tails(connection: Connection, places: Sequence[Place]) -> dict[int, Points]:
    """Last chunks that are short enough to be written anew."""
    short = {
        place.metric_id: {"metric_id": place.metric_id, "seq": place.tail_seq}
        for place in places
        if 0 < place.points - place.tail_seq < _SHORT
    }
    if len(short) == 1:
        (where,) = short.values()
        rows: Sequence[Any] = _TAIL.rows(connection, where)
    else:
        ends = select(chunks).join(series, series.c.id == chunks.c.metric_id)
        ends = ends.where(chunks.c.seq == series.c.tail_seq)
        rows = [
            row
            for batch in batches(short)
            for row in connection.execute(ends.where(series.c.id.in_(batch)))
        ]
    return {row.metric_id: unpack(row) for row in rows if len(row.data) < _SMALL_BYTES}


def _pieces(count: int, points: Points) -> Iterator[tuple[int, Points]]:
    """Cut where blocks end."""
    first = 0
    while first < len(points):
        seq = count + first
        end = min(len(points), first + BLOCK - seq % BLOCK)
        yield seq, points.part(first, end)
        first = end


def _join(connection: Connection, metric_id: int, block: int) -> None:
    inside = (
        chunks.c.metric_id == metric_id,
        chunks.c.seq >= block,
        chunks.c.seq < block + BLOCK,
    )
    rows = list(connection.execute(select(chunks).where(*inside).order_by(chunks.c.seq)))
    if sum(len(row.data) for row in rows) > _LARGE_BYTES:  # tables, texts: joined they gain nothing
        return
    together = Points()
    for row in rows:
        together.extend(unpack(row))
    connection.execute(delete(chunks).where(*inside))
    _ADD.change(connection, {"metric_id": metric_id, "seq": block, **pack(together)})


def _rows(connection: Connection, metric_ids: Sequence[int]) -> Iterator[Any]:
    query = select(chunks).order_by(chunks.c.metric_id, chunks.c.seq)
    for batch in batches(metric_ids):
        yield from connection.execute(query.where(chunks.c.metric_id.in_(batch)))
