"""The migrations make exactly the tables that the code uses."""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from wherry.core.errors import WherryError
from wherry.core.metrics import Logged
from wherry.store import metrics, run_names, runs, tables
from wherry.store import migrate as migration
from wherry.store.database import Database
from wherry.store.model_tables import every_table as metadata

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.filterwarnings("ignore:.*expression-based index")
def test_migrations_equal_the_models(database: Database) -> None:
    with database.read() as connection:
        options = {"compare_type": True, "include_object": _is_comparable}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []
        tables = set(inspect(connection).get_table_names())
    assert tables == {*metadata.tables, "alembic_version"}


def _is_comparable(thing: object, name: str | None, kind: str, *_: object) -> bool:
    """Alembic cannot read a collation inside an index; the text below is compared instead."""
    return (kind, name) != ("index", "ix_runs_by_id")


def test_both_have_the_same_indexes(database_url: str) -> None:
    """Also those on expressions and with conditions: the text of each is compared."""
    database = Database(database_url)
    _clear(database)
    with database.write() as connection:
        metadata.create_all(connection)
    made = _indexes(database)
    _clear(database)
    migration.migrate(database)
    assert _indexes(database) == made
    database.close()


def _clear(database: Database) -> None:
    with database.write() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE IF EXISTS alembic_version"))


def _indexes(database: Database) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    if not database.is_sqlite:
        query = (
            "SELECT indexname, indexdef FROM pg_indexes "
            "WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        )
    with database.read() as connection:
        return {name: sql.lower() for name, sql in connection.execute(text(query))}


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
    _clear(database)
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


def test_runs_of_the_version_before_hold_on_to_their_build_contexts(database_url: str) -> None:
    database = Database(database_url)
    _clear(database)
    migration.migrate(database, "0005")
    docker = {"environment": {"specification": {"docker": {"context": "c" * 64}}}}
    specs = ["NULL", "null", '{"script": "a.py"}', json.dumps(docker)]
    with database.write() as connection:
        connection.execute(text("INSERT INTO workspaces VALUES ('1', 'lab', '', '{}', 5)"))
        connection.execute(
            text("INSERT INTO experiments VALUES ('2', '1', 'e', '', '{}', 5, NULL, 6)")
        )
        for number, spec in enumerate(specs):
            row = {"id": f"e_17_{number}", "number": number, "spec": spec}
            connection.execute(_OLD_RUN, {**row, "spec": None if spec == "NULL" else spec})
    migration.migrate(database)
    with database.read() as connection:
        query = text("SELECT context_id FROM runs ORDER BY number")
        assert connection.execute(query).scalars().all() == [None, None, None, "c" * 64]
    database.close()


def test_metrics_of_the_version_before_are_the_same(database_url: str) -> None:
    database = Database(database_url)
    _clear(database)
    migration.migrate(database, "0016")
    odd = [(0.5, None), (None, "NaN"), (None, "7"), (None, '"text"'), (0.25, None)]
    with database.write() as connection:
        connection.execute(text("INSERT INTO workspaces VALUES ('1', 'lab', '', '{}', 5)"))
        connection.execute(
            text("INSERT INTO experiments VALUES ('2', '1', 'e', '', '{}', 5, NULL, 6)")
        )
        connection.execute(_OLD_RUN, {"id": "e_17_1", "number": 1, "spec": None})
        for number, name in enumerate(("odd", "long", "none"), 1):
            connection.execute(_OLD_METRIC, {"id": number, "name": name})
        for seq, (value, data) in enumerate(odd):
            connection.execute(
                _OLD_POINT, {"id": 1, "seq": seq, "step": None, "value": value, "data": data}
            )
        points = [
            {"id": 2, "seq": seq, "step": seq, "value": seq / 2, "data": None}
            for seq in range(9000)
        ]
        connection.execute(_OLD_POINT, points)
    migration.migrate(database)
    with database.write() as connection:
        run = runs.get(connection, "e_17_1")
        found = metrics.history(connection, run.seq, "odd")
        assert str(found.values) == "[0.5, nan, 7, 'text', 0.25]"
        assert found.steps == [None] * 5
        assert metrics.last_values(connection, [run.seq])[run.seq]["odd"].last_value == 0.25
        metrics.append(connection, run, [Logged(9.0, "scalar", "long", 1.0, 9000)])
        metrics.append(connection, run, [Logged(9.0, "scalar", "new", 1.0)])
        found = metrics.history(connection, run.seq, "long")
        assert found.values == [*(seq / 2 for seq in range(9000)), 1.0]
        assert found.steps == list(range(9001))
        assert set(metrics.shaped(connection, [run.seq])[run.seq]) == {"odd", "long", "new"}
    database.close()


_OLD_METRIC = text("INSERT INTO metrics VALUES (:id, 'e_17_1', :name, 'scalar', 5)")
_OLD_POINT = text(
    "INSERT INTO metric_points VALUES (:id, :seq, 1700000000000000, :step, :value, :data)"
)
_OLD_RUN = text(
    "INSERT INTO runs (id, workspace_id, experiment_id, root_id, number, display_name, description,"
    " status, message, cpu, memory_bytes, gpu, submitted_by, submitted_at, attempt_count, version,"
    " spec) VALUES (:id, '1', '2', 'r', :number, '', '', 'Queued', '', 0, 0, 0, '', 5, 0, 0, :spec)"
)


def test_a_filled_database_of_the_version_before_knows_how_its_runs_ended(
    database_url: str,
) -> None:
    database = Database(database_url)
    _clear(database)
    migration.migrate(database, "0002")
    statuses = ["Completed", "Queued", "Failed", "Completed", "Running", "Canceled"]
    with database.write() as connection:
        connection.execute(text("INSERT INTO workspaces VALUES ('1', 'lab', '', '{}', 5)"))
        connection.execute(
            text("INSERT INTO experiments VALUES ('2', '1', 'e', '', '{}', 5, NULL, 6)")
        )
        for number, status in enumerate(statuses):
            row = {
                "id": f"e_17_{number:08x}",
                "workspace_id": "1",
                "experiment_id": "2",
                "root_id": "r",
                "number": number,
                "status": status,
                "submitted_at": NOW,
                "ended_at": None if status in {"Queued", "Running"} else NOW,
            }
            connection.execute(tables.runs.insert(), row)
    migration.migrate(database)
    with database.read() as connection:
        assert runs.counts(connection) == dict(Counter(statuses))
        found = run_names.starting_with(connection, "1", "00000003", 5)
    assert [row.id for row in found] == ["e_17_00000003"]
    database.close()
