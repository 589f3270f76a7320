"""The specifications of all runs, batch by batch: for what has to be done to each of them once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from .database import Database
from .tables import runs

SIZE = 1000
_AFTER = (
    select(runs.c.seq, runs.c.id, runs.c.spec)
    .where(runs.c.seq > bindparam("last"), runs.c.spec.is_not(None))
    .order_by(runs.c.seq)
    .limit(bindparam("most"))
)
_REPLACE = update(runs).where(runs.c.seq == bindparam("run_seq"))


def batches(database: Database) -> Iterator[list[tuple[int, str, dict[str, Any]]]]:
    """Each run's place, id and specification."""
    last = 0
    while True:
        with database.read() as connection:
            rows = connection.execute(_AFTER, {"last": last, "most": SIZE}).all()
        if not rows:
            return
        last = rows[-1].seq
        yield [(row.seq, row.id, row.spec) for row in rows if row.spec]


def replace(database: Database, found: Mapping[int, Mapping[str, Any]]) -> None:
    """Put these in the place of what the runs had."""
    if not found:
        return
    with database.write() as connection:
        _secure_delete(database, connection, "ON")
        connection.execute(
            _REPLACE, [{"run_seq": seq, "spec": dict(spec)} for seq, spec in found.items()]
        )
        _secure_delete(database, connection, "OFF")


def _secure_delete(database: Database, connection: Connection, switch: str) -> None:
    """SQLite writes zeros over what it frees, or does not."""
    if database.is_sqlite:
        connection.exec_driver_sql(f"PRAGMA secure_delete={switch}")
