"""No question reads more of a large store than of a small one.

SQLite tells how many instructions of its own a statement took: the same count on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from benchmarks.past import ELSEWHERE, WORKSPACE, Past, fill
from sqlalchemy import Connection

from wherry.core.placement import Placement
from wherry.core.resources import Resources
from wherry.core.search import RUNS, parse_filter, parse_order
from wherry.store import (
    attempts,
    families,
    files,
    listing,
    metrics,
    queues,
    run_names,
    runs,
    searching,
    snapshots,
    tallies,
    workspaces,
)
from wherry.store.database import Database, sqlite_url
from wherry.store.listing import Filter

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SMALL, LARGE = 1_500, 6_000
LIVE = ("Queued", "Starting", "Running", "Finalizing", "NotResponding", "CancelRequested")

Question = Callable[[Connection, str, Past], Any]


def page(limit: int = 10, **wanted: Any) -> Question:
    def ask(connection: Connection, workspace_id: str, past: Past) -> Any:
        return listing.page(connection, workspace_id, Filter(**wanted), limit, None)

    return ask


def resolve(words: Callable[[Past], str]) -> Question:
    def ask(connection: Connection, workspace_id: str, past: Past) -> Any:
        found = run_names.starting_with(connection, workspace_id, words(past), 11)
        assert len(found) == 1
        return found

    return ask


def search(text: str, *orders: str, experiment: str = "experiment-3") -> Question:
    def ask(connection: Connection, workspace_id: str, past: Past) -> Any:
        workspace = workspaces.get(connection, WORKSPACE)
        found = workspaces.ensure_experiment(connection, workspace, experiment, NOW)
        wanted = searching.Search(
            workspace_id,
            [found.id],
            parse_filter(text, RUNS),
            [parse_order(order, RUNS) for order in orders],
        )
        return searching.page(connection, wanted, 10, None)

    return ask


def best_of_all(connection: Connection, workspace_id: str, past: Past) -> Any:
    wanted = searching.Search(workspace_id, orders=[parse_order("-metrics.loss", RUNS)])
    return searching.page(connection, wanted, 1, None)


def few_of_all(connection: Connection, workspace_id: str, past: Past) -> Any:
    wanted = searching.Search(workspace_id, conditions=parse_filter("metrics.loss > 99", RUNS))
    return searching.page(connection, wanted, 10, None)


def submit(connection: Connection, workspace_id: str, past: Past) -> None:
    workspace = workspaces.get(connection, WORKSPACE)
    experiment = workspaces.ensure_experiment(connection, workspace, "experiment-1", NOW)
    row = {
        "id": "new_run",
        "workspace_id": workspace_id,
        "experiment_id": experiment.id,
        "root_id": "new_run",
        "number": workspaces.next_number(connection, experiment),
        "status": "Queued",
        "target": ELSEWHERE,
        "submission_key": "key",
        "submitted_at": NOW,
    }
    runs.add(connection, row, {"model": "bert"}, {})
    run = runs.get(connection, "new_run")
    attempts.add(connection, run, "a", Placement("new_run", Resources(1, 0, 0)), NOW)


QUESTIONS: dict[str, Question] = {
    "submit": submit,
    "show": lambda connection, _, past: runs.get(connection, past.run_ids[40]),
    "list": page(),
    "list of an experiment": page(experiment="experiment-3"),
    "list of an experiment that is not there": page(experiment="none"),
    "list by status": page(statuses=["Failed"]),
    "list what goes on": page(1, statuses=LIVE),
    "list what is being canceled": page(statuses=["CancelRequested"]),
    "list by experiment and status": page(1, experiment="experiment-3", statuses=["Failed"]),
    "list by tag": page(tags={"model": "bert"}),
    "list by rare tag": page(2, tags={"best": "yes"}),
    "list by two tags": page(tags={"model": "gbm", "seed": "7"}),
    "list by target": page(1, target=ELSEWHERE),
    "list by type": page(type="azureml.scriptrun"),
    "list by a type that is not there": page(type="other"),
    "list of the archived": page(archived="archived"),
    "list by end": page(order_by="-ended_at"),
    "list the failed by end": page(order_by="-ended_at", statuses=["Failed"]),
    "beginning of an id": resolve(lambda past: past.run_ids[70][:-2]),
    "ending of an id": resolve(lambda past: past.run_ids[70].rpartition("_")[2]),
    "display name": resolve(lambda past: "trial-70"),
    "children": lambda connection, _, past: families.children(
        connection, past.parent_ids[1], recursive=True
    ),
    "files": lambda connection, _, past: files.every(connection, past.run_ids[5]),
    "metrics": lambda connection, _, past: metrics.shaped(
        connection, [runs.get(connection, past.run_ids[5]).seq]
    ),
    "last values": lambda connection, _, past: metrics.last_values(
        connection, [runs.get(connection, past.run_ids[5]).seq]
    ),
    "search": search(""),
    "search by metric": search("metrics.loss > 1"),
    "search by metric that few have": search("metrics.loss > 99"),
    "search by metric and tag": search("metrics.loss > 1 and tags.model = 'bert'"),
    "best by metric": search("", "metrics.loss DESC"),
    "best by metric of those that meet it": search("metrics.loss > 1", "metrics.loss DESC"),
    "best by metric with a rare tag": search("tags.best = 'yes'", "metrics.loss"),
    "best of all experiments": best_of_all,
    "search all experiments by metric that few have": few_of_all,
    "best by a metric that none has": search("", "metrics.none DESC"),
    "known key": lambda connection, workspace_id, _: runs.by_key(connection, workspace_id, "none"),
    "snapshot": lambda connection, workspace_id, _: snapshots.has(connection, workspace_id, "0"),
    "counts": lambda connection, *_: runs.counts(connection),
    "place in the queue": lambda connection, *_: queues.count_before(connection, "local", 9, 99),
    "neighbours in the queue": lambda connection, *_: queues.between(
        connection, "local", 0, 9**9, 99
    ),
    "pass: queue": lambda connection, *_: queues.head(connection, "local", 9),
    "pass: to cancel": lambda connection, *_: queues.to_cancel(connection, ELSEWHERE),
    "pass: attempts": lambda connection, *_: attempts.live(connection, "local"),
    "pass: to release": lambda connection, *_: attempts.to_release(
        connection, "local", NOW, NOW, 9
    ),
    "pass: silent clients": lambda connection, *_: runs.silent_since(
        connection, NOW - timedelta(days=1)
    ),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Database, Past]]]:
    made = []
    for size in (SMALL, LARGE):
        url = sqlite_url(tmp_path_factory.mktemp("flat") / "store.db")
        made.append((url, fill(url, size)))
    opened = [(Database(url), past) for url, past in made]
    yield opened
    for database, _ in opened:
        database.close()


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_large_store_is_as_quick_to_ask_as_a_small_one(
    name: str, stores: list[tuple[Database, Past]]
) -> None:
    small, large = (_effort(database, QUESTIONS[name], past) for database, past in stores)
    assert large <= small * 1.5 + 500, f"{small} instructions became {large}"


def test_the_measure_sees_a_question_that_reads_everything(
    stores: list[tuple[Database, Past]],
) -> None:
    def ask(connection: Connection, _workspace_id: str, _past: Past) -> None:
        connection.exec_driver_sql("SELECT count(*) FROM runs WHERE message = 'x'").fetchall()

    small, large = (_effort(database, ask, past) for database, past in stores)
    assert large > small * 3


def _effort(database: Database, ask: Question, past: Past) -> int:
    """Instructions to the nearest ten; what is written is rolled back."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 10
        return 0

    with database.engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        workspace_id = workspaces.get(connection, WORKSPACE).id
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(step, 10)
        try:
            ask(connection, workspace_id, past)
        finally:
            raw.set_progress_handler(None, 0)
            connection.rollback()
    return steps


def test_tallies_stay_right_when_they_are_summed_up(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "store.db")
    fill(url, 300)
    database = Database(url)
    with database.write() as connection:
        before = runs.counts(connection)
        for _ in range(3):
            tallies.note(connection, "Failed")
        tallies.note(connection, "Completed", -1)
        tallies.fold(connection)
        after = runs.counts(connection)
        rows = connection.exec_driver_sql("SELECT count(*) FROM tallies").scalar()
    assert after["Failed"] == before["Failed"] + 3
    assert after["Completed"] == before["Completed"] - 1
    assert rows == 3
    database.close()
