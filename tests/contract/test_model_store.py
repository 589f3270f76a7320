"""Models in the store, on both databases: numbers given once, searches, what goes with what."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wherry.core.records import Workspace
from wherry.core.search import ATTRIBUTE, METRIC, PARAM, TAG, Condition, Order
from wherry.store import (
    files,
    logged_models,
    model_versions,
    registered_models,
    run_inputs,
    runs,
    workspaces,
)
from wherry.store.database import Database
from wherry.store.logged_models import Dataset, MetricOrder, Search
from wherry.store.run_inputs import INPUT, OUTPUT

from .stored import NOW, add_run


def in_workspace(database: Database) -> Workspace:
    with database.read() as connection:
        return workspaces.get(connection, "w")


def add_version(database: Database, workspace: Workspace, name: str, **fields: Any) -> int:
    with database.write() as connection:
        model = registered_models.get(connection, workspace, name, lock=True)
        number = registered_models.next_version(connection, model, NOW)
        row = {
            "id": f"v-{name}-{number}",
            "version": number,
            "stage": "None",
            "status": "READY",
            "source": "s3://b/m",
            "has_files": False,
            "tags": {},
            "properties": {},
            "created_at": NOW,
            "modified_at": NOW,
        }
        model_versions.add(connection, model, {**row, **fields})
    return number


def add_registered(database: Database, workspace: Workspace, name: str, **tags: str) -> None:
    fields = {"name": name, "tags": tags, "created_at": NOW, "modified_at": NOW}
    with database.write() as connection:
        registered_models.add(connection, workspace, fields)


def add_logged(database: Database, name: str, **fields: Any) -> None:
    with database.write() as connection:
        workspace = workspaces.get(connection, "w")
        experiment = workspaces.get_experiment(connection, workspace, "e")
        row = {
            "id": f"m-{name}",
            "workspace_id": workspace.id,
            "experiment_id": experiment.id,
            "name": name,
            "status": "READY",
            "tags": {},
            "params": {},
            "created_at": NOW,
            "modified_at": NOW,
        }
        logged_models.add(connection, {**row, **fields})


def found(database: Database, *conditions: Condition, **more: Any) -> list[str]:
    with database.read() as connection:
        workspace = workspaces.get(connection, "w")
        experiment = workspaces.get_experiment(connection, workspace, "e")
        search = Search(
            workspace.id,
            [experiment.id],
            conditions,
            more.get("orders", []),
            more.get("datasets", []),
        )
        rows, _ = logged_models.page(connection, search, 10, None)
    return [row.name for row in rows]


def test_a_hundred_register_at_once(database: Database) -> None:
    add_run(database, "r")
    workspace = in_workspace(database)
    add_registered(database, workspace, "m")
    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(lambda _: add_version(database, workspace, "m"), range(100)))
    assert sorted(made) == list(range(1, 101))
    with database.read() as connection:
        rows, following = model_versions.page(connection, workspace, [], [], 60, None)
        rest, end = model_versions.page(connection, workspace, [], [], 60, following)
    assert [row.version for row in [*rows, *rest]] == list(range(100, 0, -1))
    assert end is None


def test_logged_models_are_found_by_what_they_have(database: Database) -> None:
    add_run(database, "r")
    add_logged(database, "a", tags={"team": "Red", 'o"dd': "1"}, params={"C": "1"})
    add_logged(database, "b", tags={"team": "blue"}, source_run_id="r")
    add_logged(database, "c", deleted_at=NOW)
    assert found(database) == ["b", "a"]
    assert found(database, Condition(TAG, "team", "ILIKE", "r%")) == ["a"]
    assert found(database, Condition(TAG, "team", "LIKE", "r%")) == []
    assert found(database, Condition(TAG, "team", "!=", "blue")) == ["a"]
    assert found(database, Condition(TAG, "none", "!=", "x")) == []
    assert found(database, Condition(PARAM, "C", "IN", ("1", "2"))) == ["a"]
    assert found(database, Condition(ATTRIBUTE, "source_run_id", "=", "r")) == ["b"]
    at = NOW.timestamp() * 1000
    assert found(database, Condition(ATTRIBUTE, "creation_timestamp", "<", at - 1)) == []
    assert found(database, Condition(ATTRIBUTE, "creation_timestamp", ">", at - 1)) == ["b", "a"]
    assert found(database, orders=[Order(ATTRIBUTE, "name", False)]) == ["a", "b"]


def test_logged_models_are_sorted_by_their_newest_values(database: Database) -> None:
    add_run(database, "r")
    values = {"a": [(1, 0.9), (2, 0.1)], "b": [(1, 0.5)], "c": [(1, math.nan)], "d": []}
    for name in values:
        add_logged(database, name)
    with database.write() as connection:
        workspace = workspaces.get(connection, "w")
        for name, points in values.items():
            row = logged_models.get(connection, workspace, f"m-{name}")
            on = {"dataset_name": f"of {name}", "dataset_digest": "1"}
            rows = [
                {"model_seq": row.seq, "name": "auc", "run_id": "r", "at": at, "step": 0}
                | {"value": value, **on}
                for at, value in points
            ]
            for _ in range(2):
                logged_models.add_metrics(connection, rows)
    best = MetricOrder("auc", True, Dataset(None))
    assert found(database, orders=[best])[:2] == ["b", "a"]
    good = Condition(METRIC, "auc", ">", 0.4)
    assert sorted(found(database, good)) == ["a", "b"]
    assert found(database, good, datasets=[Dataset("of b", "1")]) == ["b"]
    assert found(database, datasets=[Dataset("of b", "2")]) == []
    with database.read() as connection:
        row = logged_models.get(connection, workspace, "m-a")
        assert len(logged_models.metrics(connection, [row.seq])[row.seq]) == 2


def test_what_runs_took_and_gave_goes_with_them(database: Database) -> None:
    one = run_inputs.Dataset("d", "1", "code", "{}", None, None)
    two = run_inputs.Dataset("e", "2", "code", "{}", "schema", None)
    for run_id in ("r1", "r2"):
        add_run(database, run_id)
        with database.write() as connection:
            row = runs.get(connection, run_id)
            given = [(one, {run_inputs.CONTEXT: "train"}), (one, {}), (two, {"x": "y"})]
            for _ in range(2):
                run_inputs.add_datasets(connection, row, given[: 3 if run_id == "r1" else 1])
                run_inputs.add_models(connection, row, OUTPUT, {"m-2": 2, "m-1": 1})
                run_inputs.add_models(connection, row, INPUT, {"m-3": 0})
    with database.read() as connection:
        seqs = [runs.get(connection, each).seq for each in ("r1", "r2")]
        took = run_inputs.datasets(connection, seqs)
        assert [(row.name, row.tags) for row in took[seqs[0]]] == [
            ("d", {run_inputs.CONTEXT: "train"}),
            ("e", {"x": "y"}),
        ]
        gave = run_inputs.models(connection, seqs)
        assert [row.model_id for row in gave[seqs[1], OUTPUT]] == ["m-1", "m-2"]
        workspace = workspaces.get(connection, "w")
        home = runs.get(connection, "r1").experiment_id
        known = run_inputs.summaries(connection, workspace.id, [home], 10)
        assert {(row.name, row.context) for row in known} == {("d", "train"), ("e", None)}
    with database.write() as connection:
        run_inputs.remove(connection, seqs[:1])
        known = run_inputs.summaries(connection, workspace.id, [home], 10)
        assert [row.name for row in known] == ["d"]
        assert run_inputs.models(connection, seqs[:1]) == {}


def test_models_go_with_their_workspace(database: Database) -> None:
    with database.write() as connection:
        workspace = workspaces.create(connection, "w", NOW, "", {})
        workspaces.ensure_experiment(connection, workspace, "e", NOW)
    add_logged(database, "a")
    add_registered(database, workspace, "m", team="red")
    number = add_version(database, workspace, "m")
    with database.write() as connection:
        model = registered_models.get(connection, workspace, "m")
        registered_models.set_alias(connection, model, "best", number)
        workspaces.remove(connection, workspace)
        assert logged_models.find(connection, workspace.id, "m-a") is None
        assert files.digests(connection) == set()
