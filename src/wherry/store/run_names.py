"""Runs by what people call them: the beginning of an id, its random ending, a display name."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select

from .runs import JOINED, RunRow
from .tables import bytewise, ending_of, equals, head_of, runs

_LAST_CHARACTER = "\U0010ffff"


def starting_with(
    connection: Connection, workspace_id: str, prefix: str, limit: int
) -> list[RunRow]:
    """Runs whose id begins with ``prefix``, or whose random ending or display name matches it.

    Each way is a question of its own, which an index answers.
    """
    mine = select(runs.c.seq).where(runs.c.workspace_id == workspace_id)
    head, first = head_of(bytewise(runs.c.id)), prefix[:100]
    by_id = mine.where(
        head >= first,
        head < first + _LAST_CHARACTER,
        runs.c.id.startswith(prefix, autoescape=True),
    ).order_by(head)
    found = _seqs(connection, by_id.limit(limit))
    if not found:
        by_ending = mine.where(
            ending_of(runs.c.id) == prefix.rpartition("_")[2],
            runs.c.id.endswith("_" + prefix, autoescape=True),
        )
        by_name = mine.where(*equals(runs.c.display_name, prefix))
        found = _seqs(connection, by_ending.limit(limit))
        found |= _seqs(connection, by_name.order_by(runs.c.seq.desc()).limit(limit))
    rows = JOINED.where(runs.c.seq.in_(found)).order_by(runs.c.seq.desc()).limit(limit)
    return list(connection.execute(rows)) if found else []


def _seqs(connection: Connection, query: Select[Any]) -> set[int]:
    return set(connection.execute(query).scalars())


def newest(connection: Connection, workspace_id: str, limit: int) -> list[str]:
    """What the newest runs may be called by."""
    mine = select(runs.c.id, runs.c.display_name).where(runs.c.workspace_id == workspace_id)
    rows = list(connection.execute(mine.order_by(runs.c.seq.desc()).limit(limit)))
    return [row.display_name for row in rows if row.display_name] + [row.id for row in rows]
