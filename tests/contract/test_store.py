"""The store keeps its promises on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import bindparam, event, insert, select
from sqlalchemy.exc import IntegrityError

from wherry.core.errors import ConflictError, NotFoundError, UserErrorException, WherryError
from wherry.core.lifecycle import Reason, Status
from wherry.core.placement import Placement
from wherry.core.records import Page, RunFile
from wherry.core.resources import Resources
from wherry.store import (
    attempts,
    families,
    files,
    leases,
    listing,
    metrics,
    queues,
    run_labels,
    run_names,
    run_records,
    runs,
    snapshots,
    streams,
    tokens,
    workspaces,
)
from wherry.store.database import Database, sqlite_url
from wherry.store.listing import Filter
from wherry.store.migrate import migrate
from wherry.store.prepared import Prepared
from wherry.store.tables import ORDERS, events
from wherry.store.tables import runs as runs_table

from .stored import NOW, add_run


def page(database: Database, wanted: Filter, limit: int = 50, cursor: str | None = None) -> Page:
    with database.read() as connection:
        workspace = workspaces.get(connection, "w")
        rows, following = listing.page(connection, workspace.id, wanted, limit, cursor)
        return Page(run_records.to_records(connection, rows), following)


def ids(database: Database, **wanted: Any) -> list[str]:
    return [run.id for run in page(database, Filter(**wanted)).items]


def test_a_run_comes_back_as_it_was(database: Database) -> None:
    add_run(database, "r1", tags={"a": "1"}, properties={"p": "x"}, spec={"script": "t.py"})
    with database.read() as connection:
        record = run_records.to_records(connection, [runs.get(connection, "r1")], spec=True)[0]
    assert record.submitted_at == NOW
    assert (record.workspace, record.experiment, record.number) == ("w", "e", 1)
    assert (record.tags, record.properties) == ({"a": "1"}, {"p": "x"})
    assert record.spec == {"script": "t.py"}
    assert record.to_dict()["submitted_at"] == "2026-01-02T03:04:05.678901Z"


def test_move_checks_the_table_writes_an_event_and_fences_the_late(database: Database) -> None:
    add_run(database, "r1")
    with database.write() as connection:
        stale = runs.get(connection, "r1")
        runs.move(connection, stale, Status.STARTING, NOW)
        runs.move(connection, runs.get(connection, "r1"), Status.RUNNING, NOW)
        with pytest.raises(runs.StaleError):
            runs.move(connection, stale, Status.STARTING, NOW)
        with pytest.raises(WherryError, match="cannot go from Running to Starting"):
            runs.move(connection, runs.get(connection, "r1"), Status.STARTING, NOW)
        change = runs.Change(Reason.EXIT_CODE, "exited with code 1", {"exit_code": 1})
        end = NOW + timedelta(seconds=5)
        runs.move(connection, runs.get(connection, "r1"), Status.FAILED, end, change)
        row = runs.get(connection, "r1")
    assert (row.started_at, row.ended_at, row.error) == (NOW, end, {"exit_code": 1})
    with database.read() as connection:
        told = [(event.from_status, event.to_status) for event in runs.history(connection, "r1")]
    assert told == [
        (None, "Queued"),
        ("Queued", "Starting"),
        ("Starting", "Running"),
        ("Running", "Failed"),
    ]


def test_nothing_else_writes_a_status(database: Database) -> None:
    add_run(database, "r1")
    with database.write() as connection, pytest.raises(WherryError):
        runs.update_fields(connection, runs.get(connection, "r1"), {"status": "Completed"})


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    add_run(database, "r1")
    with pytest.raises(IntegrityError):
        add_run(database, "r1")
    with database.read() as connection:
        assert len(list(connection.execute(select(events)))) == 1


def test_pages_follow_each_other_without_gaps_or_repeats(database: Database) -> None:
    for index in range(7):
        add_run(database, f"r{index}", display_name=f"name-{index % 3}")
    for order in ("-submitted_at", "submitted_at", "display_name", "-ended_at", "-number"):
        seen: list[str] = []
        cursor = None
        while True:
            got = page(database, Filter(order_by=order), limit=3, cursor=cursor)
            seen += [run.id for run in got.items]
            cursor = got.next_cursor
            if cursor is None:
                break
        assert sorted(seen) == [f"r{index}" for index in range(7)], order
    assert ids(database)[0] == "r6"
    assert ids(database, order_by="submitted_at")[0] == "r0"


def test_long_values_and_names_are_compared_whole(database: Database) -> None:
    values = ["x" * 99, "x" * 100, "x" * 101, "x" * 150 + "a", "x" * 150 + "b"]
    for number, value in enumerate(values):
        add_run(database, f"r{number}", tags={"long": value}, display_name=value)
    for number, value in enumerate(values):
        assert ids(database, tags={"long": value}) == [f"r{number}"]
        with database.read() as connection:
            workspace = workspaces.get(connection, "w")
            found = run_names.starting_with(connection, workspace.id, value, 9)
        assert [row.id for row in found] == [f"r{number}"]


def test_filters_that_many_pass_are_walked_page_by_page(database: Database) -> None:
    for number in range(130):
        tags = {"model": "a", "half": str(number % 2)}
        status = ("Queued", "Running", "Completed")[number % 3]
        add_run(database, f"r{number:03}", tags=tags, status=status)
    everything = [f"r{number:03}" for number in reversed(range(130))]
    for wanted, expected in (
        (Filter(tags={"model": "a"}), everything),
        (Filter(tags={"model": None}), everything),
        (Filter(tags={"model": "a", "half": "1"}), everything[::2]),
        (Filter(statuses=["Queued", "Running"]), [r for r in everything if int(r[1:]) % 3 < 2]),
        (Filter(statuses=["Completed"], tags={"model": "a"}, order_by="submitted_at"),
            sorted(r for r in everything if int(r[1:]) % 3 == 2)),
        (Filter(tags={"half": "0"}, order_by="-number"), everything[1::2]),
    ):  # fmt: skip
        seen: list[str] = []
        cursor = None
        while cursor or not seen:
            got = page(database, wanted, limit=20, cursor=cursor)
            seen += [run.id for run in got.items]
            cursor = got.next_cursor
            if cursor is None:
                break
        assert seen == expected, wanted


def test_filters(database: Database) -> None:
    add_run(database, "r1", tags={"kind": "a", "x": "1"})
    add_run(database, "r2", tags={"kind": "b"}, experiment="other", type="azureml.scriptrun")
    add_run(database, "r3", parent_id="r1", root_id="r1", properties={"p": "1"})
    add_run(database, "r4", archived_at=NOW)
    add_run(database, "r5", cancel_requested_at=NOW)
    assert ids(database) == ["r5", "r2", "r1"]
    assert ids(database, tags={"kind": "a"}) == ["r1"]
    assert ids(database, tags={"kind": None}) == ["r2", "r1"]
    assert ids(database, properties={"p": "1"}, include_children=True) == ["r3"]
    assert ids(database, parent_id="r1") == ["r3"]
    assert ids(database, experiment="other") == ["r2"]
    assert ids(database, type="azureml.scriptrun") == ["r2"]
    assert ids(database, archived="archived") == ["r4"]
    assert ids(database, archived="all") == ["r5", "r4", "r2", "r1"]
    assert ids(database, statuses=["CancelRequested"]) == ["r5"]
    assert ids(database, statuses=["Queued"]) == ["r2", "r1"]
    assert ids(database, target="elsewhere") == []


@pytest.mark.parametrize(
    ("wanted", "cursor"),
    [
        (Filter(order_by="colour"), None),
        (Filter(statuses=["Odd"]), None),
        (Filter(), "not a cursor"),
        (Filter(), "WzEsMl0="),
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(
    database: Database, wanted: Filter, cursor: str | None
) -> None:
    add_run(database, "r1")
    with pytest.raises(UserErrorException):
        page(database, wanted, cursor=cursor)


def test_tags_change_and_properties_do_not(database: Database) -> None:
    add_run(database, "r1", tags={"a": "1", "b": "2"}, properties={"p": "1"})
    with database.write() as connection:
        row = runs.get(connection, "r1")
        run_labels.change(connection, row, run_labels.TAG, {"a": "9", "c": "3"}, ["b"])
        run_labels.change(connection, row, run_labels.PROPERTY, {"p": "1", "q": "2"})
        with pytest.raises(ConflictError, match="property 'p'"):
            run_labels.change(connection, row, run_labels.PROPERTY, {"p": "2"})
        record = run_records.to_records(connection, [row])[0]
    assert record.tags == {"a": "9", "c": "3"}
    assert record.properties == {"p": "1", "q": "2"}


def test_short_ids(database: Database) -> None:
    for run_id in ("exp_100_aaaa", "exp_100_aabb", "exp_200_cccc"):
        add_run(database, run_id, display_name=f"nice-{run_id[-1]}")

    def found(text: str) -> list[str]:
        with database.read() as connection:
            workspace = workspaces.get(connection, "w")
            rows = run_names.starting_with(connection, workspace.id, text, 10)
            return [row.id for row in rows]

    assert found("exp_2") == ["exp_200_cccc"]
    assert found("exp_100") == ["exp_100_aabb", "exp_100_aaaa"]
    assert found("cccc") == ["exp_200_cccc"]
    assert found("nice-a") == ["exp_100_aaaa"]
    assert found("exp%") == []


def test_descendants(database: Database) -> None:
    add_run(database, "a")
    add_run(database, "b", parent_id="a", root_id="a")
    add_run(database, "c", parent_id="b", root_id="a")
    with database.read() as connection:
        assert [row.id for row in families.children(connection, "a", recursive=False)] == ["b"]
        assert [row.id for row in families.children(connection, "a", recursive=True)] == ["c", "b"]
        assert families.descends_from(connection, "c", "a")
        assert families.descends_from(connection, "a", "a")
        assert not families.descends_from(connection, "a", "c")


def test_run_numbers_have_no_gaps_under_concurrency(database: Database) -> None:
    add_run(database, "first")
    problems: list[BaseException] = []

    def submit(worker: int) -> None:
        try:
            for index in range(10):
                add_run(database, f"w{worker}-{index}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=submit, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    numbers = [run.number for run in page(database, Filter(), limit=100).items]
    assert sorted(numbers) == list(range(1, 42))


def test_attempts(database: Database) -> None:
    add_run(database, "r1")
    place = Placement("r1", Resources(2, 5, 1), ("0",))
    with database.write() as connection:
        run = runs.get(connection, "r1")
        assert attempts.add(connection, run, "a1", place, NOW) == 1
        runs.move(connection, run, Status.STARTING, NOW, runs.Change(attempt_count=1))
        attempts.change(connection, "a1", {"handle": "{}", "exit": {"exit_code": 0}})
        row = attempts.get(connection, "a1")
        assert (row.number, row.cpu, row.gpus, row.exit) == (1, 2.0, ["0"], {"exit_code": 0})
        assert runs.get(connection, "r1").attempt_count == 1
        assert [each.id for each in attempts.active(connection, "local")] == ["a1"]
        attempts.change(connection, "a1", {"ended_at": NOW})
        assert attempts.active(connection, "local") == []
        assert attempts.to_release(connection, "local", NOW, NOW, 5) == []
        later = NOW + timedelta(seconds=1)
        due = attempts.to_release(connection, "local", later, later, 5)
        assert [each.id for each in due] == ["a1"]
        attempts.remove(connection, ["r1"])
        assert attempts.find(connection, "a1") is not None  # not released yet
        attempts.change(connection, "a1", {"released_at": NOW})
        attempts.remove(connection, ["r1"])
        with pytest.raises(NotFoundError):
            attempts.get(connection, "a1")


def test_a_stream_takes_each_byte_once(database: Database) -> None:
    with database.write() as connection:
        assert streams.take(connection, "r", "s", 0, 10) == 0
        assert streams.take(connection, "r", "s", 0, 10) == 10
        assert streams.take(connection, "r", "s", 5, 10) == 5
        assert streams.take(connection, "r", "s", 2, 3) == 3
        assert streams.sizes(connection, "r") == {"s": 15}
        with pytest.raises(ConflictError) as caught:
            streams.take(connection, "r", "s", 16, 1)
    assert caught.value.fields == {"size": 15}


@pytest.mark.parametrize("name", ["plain", "a b", "%41", "ü?x=1#y", "a'b"])
def test_any_folder_may_hold_the_database(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    database = Database(sqlite_url(tmp_path / name / "wherry.db"))
    migrate(database)
    database.close()
    assert (tmp_path / name / "wherry.db").exists()


def test_files_are_replaced_by_name(database: Database) -> None:
    with database.write() as connection:
        both = [RunFile("outputs/a", 1, "d" * 64, NOW), RunFile("outputs/b", 1, "d" * 64, NOW)]
        files.put_many(connection, "r", both)
        files.put_many(connection, "r", [RunFile("outputs/a", 2, "e" * 64, NOW)])
        found = [(each.path, each.size) for each in files.every(connection, "r")]
        assert found == [("outputs/a", 2), ("outputs/b", 1)]
        with pytest.raises(NotFoundError):
            files.get(connection, "r", "outputs/c")


def test_a_lease_has_one_owner_until_it_lapses(database: Database) -> None:
    def claim(owner: str, at: float) -> bool:
        with database.write() as connection:
            return leases.claim(connection, "t", owner, NOW + timedelta(seconds=at), 10)

    assert claim("one", 0)
    assert not claim("two", 5)
    assert claim("one", 5)
    assert not claim("two", 14)
    assert claim("two", 16)
    with database.write() as connection:
        leases.drop(connection, "t", "one")
    assert not claim("one", 17)


def test_tokens_are_stored_hashed(database: Database) -> None:
    with database.write() as connection:
        tokens.ensure(connection, "owner", "secret-token", NOW)
        tokens.ensure(connection, "owner", "secret-token", NOW)
        assert tokens.holder(connection, "secret-token") == "owner"
        assert tokens.holder(connection, "other") is None


@pytest.mark.parametrize("order", [*ORDERS, *(f"-{name}" for name in ORDERS)])
def test_pages_in_every_order_hold_each_run_once(database: Database, order: str) -> None:
    for n in range(7):
        started = NOW + timedelta(seconds=n % 3) if n % 2 else None
        add_run(database, f"r{n}", display_name="x" * (99 + n % 3), started_at=started)
    whole = ids(database, order_by=order)
    found: list[str] = []
    cursor = None
    while True:
        part = page(database, Filter(order_by=order), 2, cursor)
        found += [run.id for run in part.items]
        cursor = part.next_cursor
        if cursor is None:
            break
    assert found == whole
    assert len(set(found)) == 7


@pytest.mark.parametrize(
    ("order", "experiment"),
    [
        *((order, None) for name in ORDERS for order in (name, f"-{name}")),
        ("submitted_at", "e"),
        ("-submitted_at", "e"),
    ],
)
def test_an_index_serves_every_order(tmp_path: Path, order: str, experiment: str | None) -> None:
    """Without statistics, as a database is that nobody looks after."""
    database = Database(f"sqlite:///{tmp_path / 'plan.db'}")
    migrate(database)
    add_run(database, "r1", tags={"a": "1"})
    plans = _plans(database, lambda: page(database, Filter(order_by=order, experiment=experiment)))
    database.close()
    assert [step for step in plans if "SCAN" in step or "TEMP B-TREE" in step] == []


def test_a_pass_of_the_reconciler_reads_by_index(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'plan.db'}")
    migrate(database)

    def look() -> None:
        with database.read() as connection:
            attempts.active(connection, "local")
            attempts.to_release(connection, "local", NOW, NOW, 200)
            queues.head(connection, "local", 1)
            queues.between(connection, "local", 1, 9, 1)

    plans = _plans(database, look)
    database.close()
    assert [step for step in plans if "SCAN" in step] == []
    assert sum("released_at=?" in step for step in plans) == 2


def _plans(database: Database, work: Callable[[], object]) -> list[str]:
    """What SQLite does for each statement of the work."""
    statements: list[str] = []

    def note(driver: Any, *_: Any) -> None:
        driver.set_trace_callback(statements.append)

    event.listen(database.engine, "checkout", note)
    work()
    event.remove(database.engine, "checkout", note)
    asked = [statement for statement in statements if statement.startswith("SELECT")]
    with database.read() as connection:
        return [
            row[3]
            for statement in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        ]


def test_a_transaction_that_failed_leaves_nothing_to_the_next(database: Database) -> None:
    add_run(database, "r1")
    with suppress(ZeroDivisionError), database.write() as connection:
        runs.update_fields(connection, runs.get(connection, "r1"), {"description": "half"})
        raise ZeroDivisionError
    add_run(database, "r2")
    with database.read() as connection:
        assert runs.get(connection, "r1").description == ""
        assert runs.find(connection, "r2") is not None


def test_a_prepared_statement_finds_what_sqlalchemy_finds(database: Database) -> None:
    add_run(database, "r1", spec={"a": [1, None]}, tags={"t": "ä"})
    query = select(runs_table).where(runs_table.c.id == bindparam("which"))
    prepared = Prepared(query)
    with database.write() as connection:
        (plain,) = connection.execute(query, {"which": "r1"})
        (row,) = prepared.rows(connection, {"which": "r1"})
        assert row == plain
        assert row._mapping == plain._mapping
        assert prepared.first(connection, {"which": "r2"}) is None


def test_a_prepared_statement_fails_as_sqlalchemy_tells_it(database: Database) -> None:
    insert_run = Prepared(insert(runs_table))
    with pytest.raises(IntegrityError), database.write() as connection:
        insert_run.change(connection, {"id": "r1"})


def test_a_closed_database_leaves_one_file(tmp_path: Path) -> None:
    database = Database(sqlite_url(tmp_path / "wherry.db"))
    migrate(database)
    add_run(database, "r1")
    database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["wherry.db"]


def test_a_run_with_many_children_can_be_removed(database: Database) -> None:
    many = [f"r{n}" for n in range(70_000)]
    with database.write() as connection:
        files.remove(connection, many)
        metrics.remove(connection, range(70_000))
        streams.remove(connection, many)
        attempts.remove(connection, many)


def test_a_snapshot_is_kept_as_it_first_came_and_counts_as_new(database: Database) -> None:
    near = snapshots.Difference("0" * 64, [{"path": "a", "digest": "d"}], ["b"])
    with database.write() as connection:
        workspace = workspaces.create(connection, "w", NOW, "", {})
        for difference, later in ((near, 0), (None, 1)):
            now = NOW + timedelta(seconds=later)
            snapshots.add(connection, workspace.id, "1" * 64, 2, 3, now, difference)
        snapshots.add(connection, workspace.id, "2" * 64, 2, 3, NOW)
    with database.read() as connection:
        found = [snapshots.find(connection, workspace.id, digit * 64) for digit in "123"]
        assert snapshots.ways_to(connection, "1" * 64) == [near]
        assert snapshots.ways_to(connection, "2" * 64) == [None]
        assert snapshots.used(connection) == ({"0" * 64, "2" * 64}, {"d"})
    assert found == [
        snapshots.Found(NOW + timedelta(seconds=1), "0" * 64, whole=False),
        snapshots.Found(NOW, "2" * 64, whole=True),
        None,
    ]
