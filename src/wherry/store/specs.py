"""All specifications of a table, batch by batch: for what has to be done to each of them once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, select, update

from .database import Database

SIZE = 1000


def batches(database: Database, table: Table) -> Iterator[list[Row[Any]]]:
    """The rows of runs or of environments that have one."""
    names = ("seq", "id", "workspace_id", "name", "version", "spec")
    query = (
        select(*(table.c[name] for name in names if name in table.c))
        .where(table.c.seq > bindparam("last"), table.c.spec.is_not(None))
        .order_by(table.c.seq)
        .limit(bindparam("most"))
    )
    last = 0
    while True:
        with database.read() as connection:
            rows = connection.execute(query, {"last": last, "most": SIZE}).all()
        if not rows:
            return
        last = rows[-1].seq
        yield [row for row in rows if row.spec]


def replace(database: Database, table: Table, found: Mapping[int, Mapping[str, Any]]) -> None:
    """Put these in the place of what the rows had."""
    if not found:
        return
    query = update(table).where(table.c.seq == bindparam("row_seq"))
    with database.write() as connection:
        _secure_delete(database, connection, "ON")
        connection.execute(
            query, [{"row_seq": seq, "spec": dict(spec)} for seq, spec in found.items()]
        )
        _secure_delete(database, connection, "OFF")


def _secure_delete(database: Database, connection: Connection, switch: str) -> None:
    """SQLite writes zeros over what it frees, or does not."""
    if database.is_sqlite:
        connection.exec_driver_sql(f"PRAGMA secure_delete={switch}")
