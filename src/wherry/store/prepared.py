"""Statements of every step, compiled once.

SQLAlchemy looks a statement up, prepares a context and wraps the result anew for each execution,
which takes five times as long as SQLite takes for the work. On SQLite these statements go straight
to its driver, with the same types and the same rows; elsewhere SQLAlchemy executes them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row
from sqlalchemy.engine import Dialect, result_tuple
from sqlalchemy.exc import DBAPIError, NoResultFound

Parameters = Mapping[str, Any]
_Process = Callable[[Any], Any]


class Prepared:
    """``statement`` with bound parameters; none that stands for a list.

    >>> _BY_ID = Prepared(select(runs).where(runs.c.id == bindparam("run_id")))
    >>> _BY_ID.first(connection, {"run_id": "r1"})
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._forms: dict[tuple[str, ...], _Form] = {}

    def rows(self, connection: Connection, parameters: Parameters) -> list[Row[Any]]:
        if connection.dialect.name != "sqlite":
            return list(connection.execute(self._statement, parameters))
        form = self._form(connection, parameters)
        return [form.row(found) for found in form.execute(connection, parameters)[0]]

    def first(self, connection: Connection, parameters: Parameters) -> Row[Any] | None:
        return next(iter(self.rows(connection, parameters)), None)

    def one(self, connection: Connection, parameters: Parameters) -> Row[Any]:
        row = self.first(connection, parameters)
        if row is None:
            raise NoResultFound("no row was found when one was required")
        return row

    def change(self, connection: Connection, parameters: Parameters) -> int:
        """For one that returns no rows: how many it changed."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, parameters).rowcount
        return self._form(connection, parameters).execute(connection, parameters)[1]

    def change_many(self, connection: Connection, many: Sequence[Parameters]) -> None:
        """The same with one set of parameters after another, all of the same names."""
        if not many:
            return
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, many)
        else:
            self._form(connection, many[0]).execute_many(connection, many)

    def _form(self, connection: Connection, parameters: Parameters) -> _Form:
        """What is set by an INSERT or UPDATE depends on which parameters are given."""
        names = tuple(parameters)
        form = self._forms.get(names)
        if form is None:
            form = self._forms[names] = _Form(self._statement, connection.dialect, names)
        return form


class _Form:
    """A statement as SQLite's driver takes it, and what is to be made of its answers."""

    def __init__(self, statement: Any, dialect: Dialect, names: Sequence[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        self._sql = str(compiled)
        self._given: dict[str, Any] = {name: bind.value for name, bind in compiled.binds.items()}
        for column in compiled.insert_prefetch:
            self._given[column.key] = column.default.arg
        self._order = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]
        columns = list(getattr(statement, "exported_columns", ()))
        self._row = result_tuple([column.key for column in columns])
        found = [
            each.type.dialect_impl(dialect).result_processor(dialect, None) for each in columns
        ]
        self._processed: list[tuple[int, _Process]] = [
            (place, process) for place, process in enumerate(found) if process is not None
        ]

    def execute(
        self, connection: Connection, parameters: Parameters
    ) -> tuple[list[tuple[Any, ...]], int]:
        """The rows as they are stored, and how many were changed."""
        with self._telling():
            cursor = _driver(connection).execute(self._sql, self._values(parameters))
            return cursor.fetchall(), cursor.rowcount

    def execute_many(self, connection: Connection, many: Sequence[Parameters]) -> None:
        with self._telling():
            _driver(connection).executemany(self._sql, [self._values(each) for each in many])

    def _values(self, parameters: Parameters) -> list[Any]:
        given = {**self._given, **parameters}
        return [
            given[name] if process is None else process(given[name])
            for name, process in self._order
        ]

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What goes wrong is told as SQLAlchemy tells it."""
        try:
            yield
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                self._sql, None, error, sqlite3.Error, hide_parameters=True
            ) from error

    def row(self, stored: tuple[Any, ...]) -> Row[Any]:
        if not self._processed:
            return self._row(stored)
        values = list(stored)
        for place, process in self._processed:
            values[place] = process(values[place])
        return self._row(values)


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection
