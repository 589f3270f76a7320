"""Two requests that meet in the database: the server tries again, and nobody notices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import IntegrityError, NoResultFound, OperationalError

from tests.planes import make_plane, run_fields
from tests.unit.api.test_api import problem
from tests.unit.api.test_hostile import at_once, interactive
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver
from wherry.store import metrics, runs, workspaces
from wherry.store.database import Database
from wherry.store.runs import StaleError


class Deadlock(Exception):
    sqlstate = "40P01"


COLLISIONS = [
    IntegrityError("insert", {}, Exception("duplicate key")),
    OperationalError("update", {}, Deadlock("deadlock detected")),
    NoResultFound(),
    StaleError("run r changed meanwhile"),
]


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


def failing(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, error: Exception, times: int
) -> list[str]:
    """The function works, and only then fails, the first ``times`` times."""
    works: Callable[..., Any] = getattr(module, name)
    calls: list[str] = []

    def fails(*arguments: Any, **options: Any) -> Any:
        result = works(*arguments, **options)
        calls.append(name)
        if len(calls) <= times:
            raise error
        return result

    monkeypatch.setattr(module, name, fails)
    return calls


@pytest.mark.parametrize("error", COLLISIONS, ids=lambda error: type(error).__name__)
def test_a_collision_is_tried_again(
    api: TestClient, snapshot: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    calls = failing(monkeypatch, runs, "add", error, 2)
    reply = api.post("workspaces/w/runs", json=run_fields(snapshot))
    assert reply.status_code == 201, reply.text
    assert (len(calls), reply.json()["number"]) == (3, 1)
    many = failing(monkeypatch, runs, "add_many", error, 2)
    reply = api.post("workspaces/w/runs/bulk", json={"runs": [run_fields(snapshot)] * 2})
    assert reply.status_code == 201, reply.text
    assert len(many) == 3
    assert len(api.get("workspaces/w/runs").json()["items"]) == 3


def test_three_times_and_no_more(
    api: TestClient, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = failing(monkeypatch, runs, "add", COLLISIONS[0], 100)
    reply = api.post("workspaces/w/runs", json=run_fields(snapshot))
    assert "send it again" in problem(reply, 503)["detail"]
    assert len(calls) == 3
    assert api.get("workspaces/w/runs").json()["items"] == []


def test_other_errors_are_not(
    api: TestClient, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OperationalError("insert", {}, Exception("database is locked"))
    calls = failing(monkeypatch, runs, "add", error, 1)
    problem(api.post("workspaces/w/runs", json=run_fields(snapshot)), 503)
    assert len(calls) == 1


def test_a_body_that_was_streamed_counts_once(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = interactive(api)
    failing(monkeypatch, metrics, "append", COLLISIONS[0], 2)
    line = json.dumps({"t": 1, "k": "scalar", "n": "m", "v": 1}) + "\n"
    reply = api.post(f"runs/{run_id}/spool/s?offset=0", content=line)
    assert reply.json() == {"size": len(line)}, reply.text
    assert api.get(f"runs/{run_id}/metrics").json() == {"metrics": {"m": 1}}


def test_many_submissions_at_once_wait_for_each_other_in_one_order(
    api: TestClient, snapshot: str
) -> None:
    names = ["a", "b", "c", "d"]

    def submit(n: int) -> int:
        ordered = names if n % 2 else names[::-1]
        many = [run_fields(snapshot, experiment=name) for name in ordered]
        return int(api.post("workspaces/w/runs/bulk", json={"runs": many}).status_code)

    assert set(at_once(8, submit)) == {201}
    assert len(api.get("workspaces/w/runs?limit=1000").json()["items"]) == 32


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_an_experiment_that_goes_away_just_now_is_made_again(
    api: TestClient, plane: Plane, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on SQLite, which has one writer at a time."""
    find = workspaces.find_experiment
    taken: list[str] = []

    def found_and_gone(connection: Any, workspace: Any, name: str) -> Any:
        experiment = find(connection, workspace, name)
        if experiment is not None and not taken:
            taken.append(name)
            with plane.database.write() as other:
                workspaces.remove_experiment(other, experiment)
        return experiment

    api.post("workspaces/w/experiments", json={"name": "e"})
    monkeypatch.setattr(workspaces, "find_experiment", found_and_gone)
    reply = api.post("workspaces/w/runs", json=run_fields(snapshot))
    assert (reply.status_code, taken) == (201, ["e"]), reply.text
