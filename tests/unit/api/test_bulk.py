"""Many submissions in one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import add_snapshot, make_plane, run_fields
from tests.unit.api.test_api import problem
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver
from wherry.store.database import Database


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


@pytest.fixture
def snapshot(plane: Plane) -> str:
    return add_snapshot(plane, {"train.py": b"", "other.py": b""})


def send(api: TestClient, *runs: dict[str, Any]) -> Any:
    return api.post("workspaces/w/runs/bulk", json={"runs": list(runs)})


def listed(api: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("workspaces/w/runs?limit=1000").json()["items"]
    return found[::-1]


def test_each_is_a_run_like_any_other(api: TestClient, snapshot: str) -> None:
    many = [run_fields(snapshot, arguments=[str(n)], tags={"n": str(n)}) for n in range(300)]
    made = send(api, *many).json()["items"]
    assert all(item["created"] for item in made)
    runs = listed(api)
    assert [run["id"] for run in runs] == [item["id"] for item in made]
    assert [run["tags"] for run in runs] == [{"n": str(n)} for n in range(300)]
    assert [run["number"] for run in runs] == list(range(1, 301))
    shown = api.get(f"runs/{made[7]['id']}").json()
    assert (shown["status"], shown["spec"]["arguments"]) == ("Queued", ["7"])
    assert shown["properties"]["ContentSnapshotId"] == snapshot
    events = api.get(f"runs/{made[7]['id']}/events").json()["items"]
    assert [event["to"] for event in events] == ["Queued"]


def test_sent_again_they_are_found(api: TestClient, snapshot: str) -> None:
    many = [run_fields(snapshot, submission_key=f"k{n}") for n in range(5)]
    first = send(api, *many[:3]).json()["items"]
    again = send(api, *many, many[4]).json()["items"]
    assert [item["id"] for item in again[:3]] == [item["id"] for item in first]
    assert [item["created"] for item in again] == [False, False, False, True, True, True]
    assert again[4]["id"] == again[5]["id"]
    assert len(listed(api)) == 5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"script": "missing.py"}, "run 2: the script 'missing.py' is not in the snapshot"),
        ({"target": "moon"}, "run 2: there is no compute target 'moon'"),
        ({"arguments": ["a\0b"]}, "runs.2.arguments"),
        ({"snapshot_id": "0" * 64}, "run 2: there is no snapshot"),
        ({"parent_id": "nobody"}, "there is no run 'nobody'"),
    ],
)
def test_one_that_is_wrong_stops_them_all(
    api: TestClient, snapshot: str, fields: dict[str, Any], words: str
) -> None:
    good = run_fields(snapshot)
    reply = send(api, good, good, {**good, **fields}, good)
    assert reply.status_code in (400, 404)
    assert words in problem(reply, reply.status_code)["detail"]
    assert listed(api) == []


def test_there_are_bounds(api: TestClient, snapshot: str) -> None:
    problem(send(api), 400)
    problem(send(api, *[run_fields(snapshot)] * 10_001), 400)


def test_children_and_experiments_keep_their_places(api: TestClient, snapshot: str) -> None:
    parent = send(api, run_fields(snapshot)).json()["items"][0]["id"]
    made = send(
        api,
        run_fields(snapshot, parent_id=parent),
        run_fields(snapshot, experiment="other", script="other.py"),
    ).json()["items"]
    child, other = (api.get(f"runs/{item['id']}").json() for item in made)
    assert (child["parent_id"], child["root_id"], child["number"]) == (parent, parent, 2)
    assert (other["experiment"], other["root_id"], other["number"]) == ("other", other["id"], 1)
