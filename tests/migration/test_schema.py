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


@pytest.mark.filterwarnings("ignore:.*expression-based index")
def test_migrations_equal_the_models(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        tables = set(inspect(connection).get_table_names())
    assert tables == {*metadata.tables, "alembic_version"}


def test_sqlite_has_the_indexes_on_expressions_too(tmp_path: Path) -> None:
    """Which no reflection shows: the text of each is compared."""
    made, migrated = (Database(f"sqlite:///{tmp_path / name}") for name in ("a.db", "b.db"))
    with made.write() as connection:
        metadata.create_all(connection)
    migration.migrate(migrated)
    assert _indexes(made) == _indexes(migrated)


def _indexes(database: Database) -> dict[str, str]:
    with database.read() as connection:
        rows = connection.execute(
            text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        )
        found = {name: sql.lower() for name, sql in rows}
    database.close()
    return found


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


def test_an_older_database_keeps_what_it_holds(database_url: str) -> None:
    database = Database(database_url)
    with database.write() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
    migration.migrate(database, "0001")
    with database.write() as connection:
        connection.execute(
            text("INSERT INTO workspaces VALUES ('1', 'lab', '', '{}', 5)"),
        )
    migration.migrate(database)
    with database.read() as connection:
        assert connection.execute(text("SELECT name FROM workspaces")).scalars().all() == ["lab"]
        present = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    assert present == migration.HEAD
    database.close()
