"""Runs are found by what they were given and what they logged, and refused filters say why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import make_plane
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver
from wherry.store import run_labels, runs
from wherry.store.database import Database

from .test_api import problem, submit


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


@pytest.fixture
def logged(api: TestClient, plane: Plane, snapshot: str) -> list[str]:
    """Six runs: of each its number as tag, argument and parameter, and its metrics."""
    ids = []
    for number in range(6):
        run = submit(
            api,
            snapshot,
            experiment="even" if number % 2 == 0 else "odd",
            arguments=["--n", str(number)],
            tags={"n": str(number), "team": "red" if number < 3 else "blue"},
        )
        ids.append(run["id"])
        log(api, run["id"], "auc", [0.1 * number, 0.5 - 0.1 * number])
        with plane.write() as connection:
            row = runs.get(connection, run["id"])
            run_labels.change(connection, row, run_labels.PARAM, {"lr": str(number)})
    return ids


def log(api: TestClient, run_id: str, name: str, values: list[Any], kind: str = "scalar") -> None:
    lines = [json.dumps({"t": 1.0, "k": kind, "n": name, "v": value}) for value in values]
    data = ("\n".join(lines) + "\n").encode()
    reply = api.post(f"runs/{run_id}/spool/{name}", params={"offset": 0}, content=data)
    assert reply.status_code == 200, reply.text


def found(api: TestClient, ids: list[str], **params: Any) -> list[int]:
    reply = api.get("workspaces/w/runs", params=params)
    assert reply.status_code == 200, reply.text
    return [ids.index(run["id"]) for run in reply.json()["items"]]


def test_filters_and_orders_of_what_was_logged(api: TestClient, logged: list[str]) -> None:
    assert found(api, logged, order_by="metrics.auc") == [5, 4, 3, 2, 1, 0]
    assert found(api, logged, order_by="-metrics.auc") == [0, 1, 2, 3, 4, 5]
    assert found(api, logged, order_by="metrics.auc DESC", limit=2) == [0, 1]
    assert found(api, logged, order_by="-params.lr", limit=2) == [5, 4]
    assert found(api, logged, order_by="tags.n", experiment="odd") == [1, 3, 5]
    assert found(api, logged, filter="metrics.auc > 0.25 and tags.team = 'red'") == [2, 1, 0]
    assert found(api, logged, filter="target = 'local' and params.lr = '4'") == [4]
    assert found(api, logged, filter="metrics.none > 0") == []


def test_filters_in_words_and_by_fields_hold_together(api: TestClient, logged: list[str]) -> None:
    words = {"filter": "metrics.auc > 0.05", "order_by": "metrics.auc"}
    assert found(api, logged, **words) == [4, 3, 2, 1, 0]
    assert found(api, logged, **words, experiment="even") == [4, 2, 0]
    assert found(api, logged, **words, experiment="none") == []
    assert found(api, logged, **words, tag="team=blue") == [4, 3]
    assert found(api, logged, **words, tag=["team", "n=1"]) == [1]
    assert found(api, logged, **words, target="local", status="Queued") == [4, 3, 2, 1, 0]
    assert found(api, logged, **words, target="elsewhere") == []
    api.post(f"runs/{logged[3]}/cancel")
    api.patch(f"runs/{logged[2]}", json={"archived": True})
    assert found(api, logged, **words, status=["Queued", "CancelRequested"]) == [4, 1, 0]
    assert found(api, logged, **words, archived="archived") == [2]


def test_a_filter_keeps_every_order_of_a_listing(api: TestClient, logged: list[str]) -> None:
    words = "tags.n IS NOT NULL"
    for order in ("-submitted_at", "submitted_at", "number", "-started_at", "display_name"):
        plain = found(api, logged, order_by=order)
        assert sorted(found(api, logged, order_by=order, filter=words)) == sorted(plain)
    assert found(api, logged, filter=words) == [5, 4, 3, 2, 1, 0]
    assert found(api, logged, order_by="submitted_at", filter=words) == [0, 1, 2, 3, 4, 5]


def test_pages_go_on_where_they_ended(api: TestClient, logged: list[str]) -> None:
    params: dict[str, Any] = {"order_by": "-metrics.auc", "filter": "number > 0", "limit": 4}
    first = api.get("workspaces/w/runs", params=params).json()
    assert [run["id"] for run in first["items"]] == logged[:4]
    params["cursor"] = first["next_cursor"]
    rest = api.get("workspaces/w/runs", params=params).json()
    assert ([run["id"] for run in rest["items"]], rest["next_cursor"]) == (logged[4:], None)
    problem(api.get("workspaces/w/runs", params={"cursor": first["next_cursor"]}), 400)


def test_a_page_has_metrics_and_arguments_on_request(api: TestClient, logged: list[str]) -> None:
    log(api, logged[5], "odd", [float("nan")])
    log(api, logged[5], "row", [{"x": 1}], "row")
    plain, *_ = api.get("workspaces/w/runs").json()["items"]
    assert plain["params"] == {"lr": "5"}
    assert "metrics" not in plain
    params = {"include": ["metrics", "arguments"], "order_by": "metrics.auc"}
    best, *_, worst = api.get("workspaces/w/runs", params=params).json()["items"]
    assert best["arguments"] == ["--n", "5"]
    assert list(best["metrics"]) == ["auc", "odd"]
    assert best["metrics"]["odd"] != best["metrics"]["odd"]
    assert worst["metrics"] == {"auc": 0.5}
    problem(api.get("workspaces/w/runs", params={"include": "everything"}), 400)


def test_a_summary_has_last_values_and_outlines(api: TestClient, logged: list[str]) -> None:
    run_id = logged[0]
    log(api, run_id, "loss", [*range(1000), -5, 3])
    log(api, run_id, "row", [{"x": 1}, {"x": 2}], "row")
    brief = api.get(f"runs/{run_id}/metrics/summary").json()["metrics"]
    assert brief["loss"] == {"kind": "scalar", "count": 1002, "last": 3}
    assert brief["row"] == {"kind": "row", "count": 2}
    drawn = api.get(f"runs/{run_id}/metrics/summary", params={"points": 20}).json()["metrics"]
    assert len(drawn["loss"]["values"]) <= 22
    assert (min(drawn["loss"]["values"]), max(drawn["loss"]["values"])) == (-5, 999)
    assert drawn["loss"]["steps"][-2:] == [1000, 1001]
    assert len(drawn["loss"]["steps"]) == len(drawn["loss"]["values"])
    assert drawn["row"]["value"] == {"x": [1, 2]}
    problem(api.get("runs/none/metrics/summary"), 404)


REFUSED = [
    ({"filter": "metrics.auc >"}, "ends too soon"),
    ({"filter": "metrics.auc > 'NaN'"}, "is not a number"),
    ({"filter": "tags.x = \x01"}, "makes no sense"),
    ({"filter": "nmber > 3"}, "did you mean 'number'"),
    ({"filter": "datasets.colour = 'x'"}, "datasets have no 'colour'"),
    ({"filter": "tags.a = 'b' and " * 60 + "tags.a = 'b'"}, "at most 50 comparisons"),
    ({"filter": "tags.a = '" + "b" * 20_000 + "'"}, "at most 10000 characters"),
    ({"filter": "status = 'Runing'"}, "is not a status"),
    ({"order_by": "colour"}, "cannot be ordered by 'colour'"),
    ({"order_by": "metric.auc UP"}, "the order 'metric.auc UP' is not understood"),
    ({"order_by": "metrics."}, "is not known here"),
    ({"order_by": "datasets.x"}, "cannot be ordered by datasets"),
]
ODD = [
    "tags.a = '\x00'",
    "metrics.`\x00` > 1",
    "tags.a LIKE '%[*?'",
    "metrics.auc > 1e400",
    "metrics.auc < -1e400",
    "start_time > 1e400",
    "end_time < -1e400",
    "number < 1e30",
    "number = 0.5",
    "start_time > 1.5",
    "tags.a = '\N{GRINNING FACE}'",
]


def test_what_is_not_understood_is_refused_with_a_sentence(
    api: TestClient, logged: list[str]
) -> None:
    for params, told in REFUSED:
        reply = api.get("workspaces/w/runs", params=params)
        assert told in problem(reply, 400)["detail"], params


def test_odd_values_find_what_they_find(api: TestClient, logged: list[str]) -> None:
    for text in ODD:
        for order in ("-metrics.auc", "-submitted_at"):
            reply = api.get("workspaces/w/runs", params={"filter": text, "order_by": order})
            assert reply.status_code == (400 if "\x00" in text else 200), (text, reply.text)
