"""The engine and its transactions: all that differs between SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.pool import QueuePool

from wherry.core.errors import UserErrorException


class Database:
    """Short transactions, one writer at a time on SQLite."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # SQLite's own waiting for a lock sleeps; ours wakes the next writer at once.
        self._writing = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view; writes are not meant."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Committed, and on disk, when the block ends; rolled back if it raises."""
        if not self.is_sqlite:
            with self.engine.begin() as connection:
                yield connection
            return
        with self._writing, self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.commit()

    def close(self) -> None:
        self.engine.dispose()


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(url)
    if parsed.get_backend_name() == "postgresql":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"), pool_size=10, max_overflow=20
        )
    raise UserErrorException(
        f"database_url names {parsed.get_backend_name()!r}, which is not supported",
        hint="use sqlite:///path or postgresql://user:password@host/name",
    )


def _sqlite(url: str) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=10,
        max_overflow=40,
        connect_args={"timeout": 30, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "busy_timeout=30000",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine
