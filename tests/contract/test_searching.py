"""Searches find what a look at every run finds, on both databases, page by page."""

from __future__ import annotations

import fnmatch
import math
import random
import re
from typing import Any

import pytest

from wherry.core.errors import UserErrorException
from wherry.core.metrics import Logged
from wherry.core.search import RUNS, Condition, parse_filter, parse_order
from wherry.store import metrics, run_labels, runs, searching, workspaces
from wherry.store.database import Database
from wherry.store.searching import Search

from .stored import add_run

FILTERS = [
    "",
    "metrics.auc > 0.5",
    "metrics.auc > 0.5 and metrics.auc <= 0.8",
    "metrics.auc != 0.5 and params.lr = '0.1'",
    "metrics.loss < 0.2 and tags.team = 'red'",
    "metrics.none > 0",
    "tags.team != 'red'",
    "tags.team IN ('red', 'Blue')",
    "tags.team NOT IN ('red', 'Blue')",
    "tags.team IS NULL",
    "tags.team IS NOT NULL and status = 'FINISHED'",
    "tags.team LIKE 'b%'",
    "tags.team ILIKE 'b%'",
    "params.lr LIKE '0._'",
    "status = 'RUNNING'",
    "status != 'Completed'",
    "attributes.run_name = 'run 7'",
    "run_id IN ('r3', 'r9', 'none')",
    "number > 20",
    "experiment = 'e1'",
]
ORDERS = [
    [],
    ["metrics.auc DESC"],
    ["metrics.auc"],
    ["metrics.loss DESC"],
    ["metrics.auc DESC", "params.lr"],
    ["params.lr DESC"],
    ["tags.team"],
    ["submit_time"],
    ["submit_time DESC"],
    ["start_time DESC"],
    ["run_name"],
]
STATUSES = ["Queued", "Running", "Completed", "Failed"]
WORDS = {"FINISHED": ["Completed"], "RUNNING": ["Running"], "Completed": ["Completed"]}
SIGNS = {"=": "==", "<>": "!="}


@pytest.fixture
def known(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Runs with all sorts of values, as they are stored; what few means is less here."""
    monkeypatch.setattr(searching, "_FEW", 5)
    chance = random.Random(3)
    found = []
    for number in range(60):
        run: dict[str, Any] = {
            "run_id": f"r{number}",
            "experiment": f"e{number % 3}",
            "run_name": f"run {number}",
            "status": chance.choice(STATUSES),
            "tags": {"team": chance.choice(["red", "blue", "Blue"])} if number % 4 else {},
            "params": {"lr": chance.choice(["0.1", "0.01", "1"])} if number % 5 else {},
            "metrics": {"loss": chance.choice([0.1, 0.2, math.nan, math.inf, 3])},
        }
        if number % 3:
            run["metrics"]["auc"] = chance.choice([0.4, 0.5, 0.6, 0.7, 0.8])
        add_run(
            database,
            run["run_id"],
            experiment=run["experiment"],
            display_name=run["run_name"],
            status=run["status"],
            tags=run["tags"],
        )
        with database.write() as connection:
            row = runs.get(connection, run["run_id"])
            run_labels.change(connection, row, run_labels.PARAM, run["params"])
            for name, value in run["metrics"].items():
                metrics.append(connection, row, [Logged(1.0, "scalar", name, value)])
        found.append(
            {**run, "seq": row.seq, "number": row.number, "experiment_id": row.experiment_id}
        )
    return found


def value_of(run: dict[str, Any], entity: str, key: str) -> Any:
    if entity != "attributes":
        value = run.get(entity, {}).get(key)
        return None if isinstance(value, float) and math.isnan(value) else value
    times = {"submit_time": "seq", "start_time": "seq"}
    return run[times.get(key, key)] if key not in ("start_time",) else 0


def meets(run: dict[str, Any], condition: Condition) -> bool:
    value, wanted = value_of(run, condition.entity, condition.key), condition.value
    if condition.operator in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (condition.operator == "IS NULL")
    if value is None:
        return False
    if condition.key == "status":
        return (value in WORDS[str(wanted)]) == (condition.operator == "=")
    if condition.operator.endswith("IN"):
        return (value in wanted) == (condition.operator == "IN")  # type: ignore[operator]
    if condition.operator.endswith("LIKE"):
        pattern = fnmatch.translate(str(wanted).replace("%", "*").replace("_", "?"))
        flags = re.IGNORECASE if condition.operator == "ILIKE" else 0
        return re.match(pattern, value, flags) is not None
    sign = SIGNS.get(condition.operator, condition.operator)
    return bool(eval(f"value {sign} wanted", {}, {"value": value, "wanted": wanted}))


def expected(
    known: list[dict[str, Any]], text: str, orders: list[str], ids: list[str]
) -> list[int]:
    wanted = parse_filter(text, RUNS)
    found = [
        run
        for run in known
        if (not ids or run["experiment_id"] in ids) and all(meets(run, each) for each in wanted)
    ]
    found.sort(key=lambda run: -run["seq"])
    for order in reversed([parse_order(each, RUNS) for each in orders]):
        some = [run for run in found if value_of(run, order.entity, order.key) is not None]
        others = [run for run in found if value_of(run, order.entity, order.key) is None]
        some.sort(
            key=lambda run: value_of(run, order.entity, order.key),
            reverse=order.descending,
        )
        found = some + others
    return [run["seq"] for run in found]


def ties_aside(seqs: list[int], known: list[dict[str, Any]], orders: list[str]) -> list[Any]:
    """What the order decides: among equals any may come first."""
    by_seq = {run["seq"]: run for run in known}
    parsed = [parse_order(each, RUNS) for each in orders]
    return [[value_of(by_seq[seq], order.entity, order.key) for order in parsed] for seq in seqs]


def pages(database: Database, search: Search, limit: int) -> list[int]:
    found: list[int] = []
    cursor = None
    with database.read() as connection:
        while True:
            seqs, cursor = searching.page(connection, search, limit, cursor)
            assert len(seqs) <= limit
            found += seqs
            if cursor is None:
                return found


def test_every_search_finds_what_a_look_at_all_runs_finds(
    database: Database, known: list[dict[str, Any]]
) -> None:
    with database.read() as connection:
        workspace = workspaces.get(connection, "w")
    scopes = [
        [],
        [known[0]["experiment_id"]],
        [known[1]["experiment_id"], known[2]["experiment_id"]],
    ]
    for text in FILTERS:
        for orders in ORDERS:
            for ids in scopes:
                search = Search(
                    workspace.id,
                    ids,
                    parse_filter(text, RUNS),
                    [parse_order(order, RUNS) for order in orders],
                )
                wanted = expected(known, text, orders, ids)
                found = pages(database, search, 7)
                told = f"{text!r} by {orders} in {len(ids)} experiments"
                assert sorted(found) == sorted(wanted), told
                shown = ties_aside(found, known, orders)
                assert shown == ties_aside(wanted, known, orders), told


def test_another_searchs_cursor_is_refused(database: Database) -> None:
    add_run(database, "r")
    with database.read() as connection:
        search = Search(workspaces.get(connection, "w").id)
        for cursor in ("x", "WzFd", "e30=", "WyJzb3J0ZWQiLG51bGwsIC0xXQ=="):
            with pytest.raises(UserErrorException):
                searching.page(connection, search, 5, cursor)


def test_the_best_of_many_experiments(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        add_run(database, f"r{number}", experiment=f"e{number}")
        with database.write() as connection:
            row = runs.get(connection, f"r{number}")
            value = float(number * 7 % 30)
            metrics.append(connection, row, [Logged(1.0, "scalar", "auc", value)])
    with database.read() as connection:
        workspace = workspaces.get(connection, "w")
    search = Search(workspace.id, orders=[parse_order("-metrics.auc", RUNS)])
    walked = pages(database, search, 7)
    monkeypatch.setattr(searching, "_BRANCHES", 20)
    assert walked == pages(database, search, 7)
    with database.read() as connection:
        values = metrics.last_values(connection, walked)
    assert [values[seq]["auc"].last_value for seq in walked] == [*range(29, -1, -1)]
