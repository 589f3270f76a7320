"""The migrations make exactly the tables that the code uses."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from wherry.core.errors import WherryError
from wherry.store import migrate as migration
from wherry.store.database import Database
from wherry.store.tables import metadata


def test_migrations_equal_the_models(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        tables = set(inspect(connection).get_table_names())
    assert tables == {*metadata.tables, "alembic_version"}


def test_head_is_the_newest_revision() -> None:
    folder = Path(migration.__file__).parent / "migrations"
    assert ScriptDirectory(str(folder)).get_current_head() == migration.HEAD


def test_many_servers_may_start_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'race.db'}"
    problems: list[BaseException] = []

    def start() -> None:
        try:
            database = Database(url)
            migration.migrate(database)
            database.close()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'newer.db'}")
    migration.migrate(database)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(WherryError, match="revision 9999") as caught:
        migration.migrate(database)
    assert "newer" in str(caught.value.hint)
    database.close()
