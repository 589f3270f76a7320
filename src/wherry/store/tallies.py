"""How many runs ended how, without counting them."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, delete, func, insert, select

from .prepared import Prepared
from .tables import tallies

FOLD_EVERY = 500

_ADD = Prepared(insert(tallies))
_SUMS = select(tallies.c.status, func.sum(tallies.c.change)).group_by(tallies.c.status)
_TAKE = delete(tallies).returning(tallies.c.status, tallies.c.change)


def note(connection: Connection, status: str, change: int = 1) -> None:
    _ADD.change(connection, {"status": status, "change": change})


def fold(connection: Connection) -> None:
    """One row for each status instead of one for each end."""
    sums: Counter[str] = Counter()
    for status, change in connection.execute(_TAKE):
        sums[status] += change
    if sums:
        _ADD.change_many(connection, [{"status": name, "change": sums[name]} for name in sums])


def every(connection: Connection) -> dict[str, int]:
    return {str(status): int(count) for status, count in connection.execute(_SUMS) if count}
