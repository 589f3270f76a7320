"""The engine and its transactions: all that differs between SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from wherry.core.errors import UserErrorException
from wherry.core.text import without_password

T = TypeVar("T")
_PATIENCE_S = 30.0
_FORM = "use sqlite:///path or postgresql://user:password@host/name"


def batches(items: Iterable[T], size: int = 1000) -> Iterator[list[T]]:
    """In portions that fit into one statement: both databases bound its parameters."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def take_turns(connection: Connection, name: str) -> None:
    """Others who ask for the same wait until this transaction is done.

    On SQLite, where there is one writer at a time, they do so anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(name))))


def sqlite_url(path: Path) -> str:
    """The address of a database file, whatever characters its path has."""
    return f"sqlite:///{quote(str(path))}"


class Database:
    """Short transactions, one writer at a time on SQLite."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # SQLite's own waiting for a lock sleeps; ours wakes the next writer at once.
        self._writing = threading.Lock()
        self._writer: Connection | None = None

    @property
    def name(self) -> str:
        """The address for people, without a password."""
        return without_password(self.engine.url.render_as_string(hide_password=True))

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
        with self._writing:
            # Always the same one: what SQLite has read for one is of no use to another, and of no
            # use to itself once another has written.
            connection, self._writer = self._writer or self.engine.connect(), None
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
            except BaseException:
                connection.close()
                raise
            self._writer = connection

    def forget_overwritten(self) -> None:
        """Have SQLite's write-ahead log, which holds older pages too, worked off and emptied."""
        if self.is_sqlite:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        if self._writing.acquire(timeout=_PATIENCE_S):
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()
            self._writing.release()
        self.engine.dispose()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError:  # its message repeats the address, password and all
        raise UserErrorException("database_url cannot be read", hint=_FORM) from None
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgres(parsed)
    raise UserErrorException(
        f"database_url names {parsed.get_backend_name()!r}, which is not supported",
        hint=_FORM,
    )


def _postgres(url: URL) -> Engine:
    waiting = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_size=40,
            max_overflow=10,
            connect_args=waiting,
            hide_parameters=True,  # errors are logged; what users sent is not
        )
    except ModuleNotFoundError:
        raise UserErrorException(
            "PostgreSQL needs a driver that is not installed", hint="pip install 'wherry[postgres]'"
        ) from None


def _write_ahead(connection: Any) -> None:
    """Several processes that open a new database at once do not wait for each other here."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _sqlite(url: str) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=50,  # as many as work at once: opening one takes longer than a question
        max_overflow=0,
        pool_use_lifo=True,  # the one that was used last has read most of what is needed next
        connect_args={"timeout": 30, "check_same_thread": False},
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in (
            "busy_timeout=30000",
            "synchronous=FULL",
            "foreign_keys=ON",
            "temp_store=MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")
        _write_ahead(connection)

    return engine
