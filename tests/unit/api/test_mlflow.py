"""MLflow's interface in its own words; ``tests/mlflow`` has its released clients."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN
from wherry.control.plane import Plane
from wherry.store import runs

from .test_api import started

ROOT = "http://testserver/mlflow"
BASE = f"{ROOT}/w/api/2.0/mlflow/"
_POINT = {"key": "m", "value": 1, "timestamp": 1000}


def ask(api: TestClient, path: str, body: Any = None, code: str = "", **options: Any) -> Any:
    """What is answered; or, with ``code``, the refusal of that kind."""
    if body is None:
        reply = api.get(BASE + path, **options)
    else:
        reply = api.post(BASE + path, json=body, **options)
    told = reply.json()
    assert told.get("error_code", "") == code, reply.text
    assert (reply.status_code == 200) == (not code)
    return told


@pytest.fixture
def run_id(api: TestClient) -> str:
    made = ask(api, "runs/create", {"experiment_id": "0", "run_name": "r", "start_time": 1000})
    return str(made["run"]["info"]["run_id"])


def shown(api: TestClient, run_id: str) -> Any:
    return ask(api, "runs/get", params={"run_id": run_id})["run"]


def test_the_experiment_zero_is_the_default_one(api: TestClient, run_id: str) -> None:
    by_id = ask(api, "experiments/get", params={"experiment_id": "0"})["experiment"]
    by_name = ask(api, "experiments/get-by-name", params={"experiment_name": "Default"})
    assert by_id == by_name["experiment"]
    assert shown(api, run_id)["info"]["experiment_id"] == by_id["experiment_id"]
    found = ask(api, "runs/search", {"experiment_ids": ["0"]})["runs"]
    assert [each["info"]["run_id"] for each in found] == [run_id]


def test_experiments_are_made_once_renamed_and_archived(api: TestClient) -> None:
    made = ask(api, "experiments/create", {"name": "a b/c", "tags": [{"key": "t", "value": "1"}]})
    ask(api, "experiments/create", {"name": "a b/c"}, "RESOURCE_ALREADY_EXISTS")
    ask(api, "experiments/update", {**made, "new_name": "d"})
    found = ask(api, "experiments/search", {"filter": "tags.t = '1' and name LIKE 'd%'"})
    assert [each["name"] for each in found["experiments"]] == ["d"]
    ask(api, "experiments/delete", made)
    left = ask(api, "experiments/search", {})["experiments"]
    assert [each["name"] for each in left] == ["Default"]
    gone = ask(api, "experiments/get", params=made)["experiment"]
    assert gone["lifecycle_stage"] == "deleted"
    ask(api, "experiments/restore", made)
    assert len(ask(api, "experiments/search", {})["experiments"]) == 2


def test_a_batch_is_stored_whole_and_once(api: TestClient, run_id: str) -> None:
    points = [
        {"key": "m", "value": value, "timestamp": 1, "step": step}
        for step, value in enumerate([0.5, "NaN", "-Infinity", 2])
    ]
    batch = {"run_id": run_id, "metrics": points, "params": [{"key": "p", "value": "1"}]}
    for _ in range(2):
        ask(api, "runs/log-batch", batch)
    refused = {**batch, "metrics": [{"key": "n", "value": 1, "timestamp": 1}]}
    refused["params"] = [{"key": "p", "value": "2"}]
    ask(api, "runs/log-batch", refused, "INVALID_PARAMETER_VALUE")
    history = ask(api, "metrics/get-history", params={"run_id": run_id, "metric_key": "m"})
    values = [point["value"] for point in history["metrics"]]
    assert values == [0.5, "NaN", "-Infinity", 2.0]
    data = shown(api, run_id)["data"]
    assert data["metrics"] == [{"key": "m", "value": 2.0, "timestamp": 1, "step": 3}]
    assert data["params"] == [{"key": "p", "value": "1"}]


def test_histories_come_in_pages(api: TestClient, run_id: str) -> None:
    points = [{"key": "m", "value": n, "timestamp": n, "step": n} for n in range(25)]
    ask(api, "runs/log-batch", {"run_id": run_id, "metrics": points})
    asked = {"run_id": run_id, "metric_key": "m", "max_results": 10}
    steps: list[int] = []
    while True:
        page = ask(api, "metrics/get-history", params=asked)
        steps += [point["step"] for point in page["metrics"]]
        if "next_page_token" not in page:
            break
        asked["page_token"] = page["next_page_token"]
    assert steps == list(range(25))


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_results": 0},
        {"page_token": "x"},
        {"start_step": 1},
        {"start_step": "x", "end_step": 2},
        {"start_step": 2, "end_step": 1},
        {"max_results": "x"},
    ],
)
def test_histories_that_make_no_sense_are_refused(
    api: TestClient, run_id: str, wrong: dict[str, Any]
) -> None:
    one = {"run_id": run_id, "metric_key": "m", **wrong}
    if "start_step" not in wrong:
        ask(api, "metrics/get-history", params=one, code="INVALID_PARAMETER_VALUE")
    if "page_token" not in wrong:
        path = "metrics/get-history-bulk-interval"
        asked = {**one, "run_ids": [run_id]}
        ask(api, path, params=asked, code="INVALID_PARAMETER_VALUE")


def test_its_client_ends_a_run_and_takes_it_up_again(
    api: TestClient, plane: Plane, run_id: str
) -> None:
    ask(api, "runs/update", {"run_id": run_id, "status": "FINISHED", "end_time": 5000})
    info = shown(api, run_id)["info"]
    assert (info["status"], info["start_time"], info["end_time"]) == ("FINISHED", 1000, 5000)
    assert api.get(f"runs/{run_id}").json()["status"] == "Completed"
    ask(api, "runs/update", {"run_id": run_id, "status": "RUNNING"})
    assert "end_time" not in shown(api, run_id)["info"]
    ask(api, "runs/update", {"run_id": run_id, "status": "FAILED"})
    assert api.get(f"runs/{run_id}").json()["status"] == "Failed"
    with plane.database.read() as connection:
        counts = runs.counts(connection)
    assert {name: count for name, count in counts.items() if count} == {"Failed": 1}


def test_a_deleted_run_takes_nothing(api: TestClient, run_id: str) -> None:
    ask(api, "runs/delete", {"run_id": run_id})
    tag = {"run_id": run_id, "key": "a", "value": "b"}
    ask(api, "runs/set-tag", tag, "INVALID_PARAMETER_VALUE")
    ask(api, "runs/restore", {"run_id": run_id})
    ask(api, "runs/set-tag", tag)
    assert {"key": "a", "value": "b"} in shown(api, run_id)["data"]["tags"]


def test_names_and_notes_are_the_runs_own(api: TestClient, run_id: str) -> None:
    for key, value in (("mlflow.runName", "best"), ("mlflow.note.content", "a note")):
        ask(api, "runs/set-tag", {"run_id": run_id, "key": key, "value": value})
    ours = api.get(f"runs/{run_id}").json()
    assert (ours["display_name"], ours["description"], ours["tags"]) == ("best", "a note", {})


def test_artifacts_are_the_runs_files(api: TestClient, run_id: str) -> None:
    experiment = shown(api, run_id)["info"]["experiment_id"]
    place = f"{ROOT}/w/api/2.0/mlflow-artifacts/artifacts/{experiment}/{run_id}/artifacts"
    assert api.put(f"{place}/model/a.txt", content=b"hello").status_code == 200
    assert api.get(f"{place}/model/a.txt").content == b"hello"
    assert api.get(f"runs/{run_id}/files/model/a.txt").content == b"hello"
    asked = {"run_id": run_id, "path": "model/a.txt"}
    assert api.get(f"{ROOT}/w/get-artifact", params=asked).content == b"hello"
    top = ask(api, "artifacts/list", params={"run_id": run_id})["files"]
    assert top == [{"path": "model", "is_dir": True}]
    below = ask(api, "artifacts/list", params={"run_id": run_id, "path": "model"})["files"]
    assert below == [{"path": "model/a.txt", "is_dir": False, "file_size": 5}]
    for bad in ("../../x", "%2e%2e/x", "a/../../b"):
        assert api.put(f"{place}/{bad}", content=b"x").status_code in (400, 404)
    assert api.delete(f"{place}/model").status_code == 200
    assert api.get(f"{place}/model/a.txt").status_code == 404


def test_a_parent_of_another_server_is_a_tag(api: TestClient, run_id: str) -> None:
    tags = [{"key": "mlflow.parentRunId", "value": "elsewhere"}]
    made = ask(api, "runs/create", {"experiment_id": "0", "tags": tags})["run"]
    assert tags[0] in made["data"]["tags"]
    tags[0]["value"] = run_id
    made = ask(api, "runs/create", {"experiment_id": "0", "tags": tags})["run"]
    assert api.get(f"runs/{made['info']['run_id']}").json()["parent_id"] == run_id


def test_a_runs_token_writes_to_its_run_and_below_it(
    api: TestClient, plane: Plane, snapshot: str, run_id: str
) -> None:
    own, _, token = started(api, plane, snapshot)
    point = {"key": "m", "value": 1, "timestamp": 1}
    ask(api, "runs/log-metric", {"run_id": own, **point}, headers=token)
    ask(api, "runs/log-metric", {"run_id": run_id, **point}, "PERMISSION_DENIED", headers=token)
    ask(api, "runs/get", params={"run_id": run_id}, headers=token)
    home = shown(api, own)["info"]["experiment_id"]
    child = ask(api, "runs/create", {"experiment_id": home}, headers=token)["run"]
    assert {"key": "mlflow.parentRunId", "value": own} in child["data"]["tags"]
    below = {"run_id": child["info"]["run_id"], **point}
    ask(api, "runs/log-metric", below, headers=token)
    ask(api, "runs/update", {"run_id": own, "status": "FAILED"}, headers=token)
    assert shown(api, own)["info"]["status"] == "SCHEDULED"  # its target's word counts


def test_a_script_that_names_an_experiment_logs_into_its_run(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    own, _, token = started(api, plane, snapshot)
    home = shown(api, own)["info"]["experiment_id"]
    asked = {"experiment_name": "whatever the script says"}
    found = ask(api, "experiments/get-by-name", params=asked, headers=token)["experiment"]
    assert found["experiment_id"] == home
    ask(api, "experiments/get-by-name", params=asked, code="RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("runs/get?run_id=none", None, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/get", None, "INVALID_PARAMETER_VALUE"),
        ("runs/create", {"experiment_id": "77"}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/search", {"experiment_ids": ["0"], "filter": "x"}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"experiment_ids": ["0"], "max_results": 0}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"experiment_ids": ["0"], "page_token": "x"}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"run_id": "none", **_POINT}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/log-metric", {"run_id": "none", "key": "m"}, "INVALID_PARAMETER_VALUE"),
        ("traces/search", {}, "NOT_IMPLEMENTED"),
        ("gateway/routes", None, "NOT_IMPLEMENTED"),
        ("nothing/here", {}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/create", [], "INVALID_PARAMETER_VALUE"),
        ("runs/log-batch", {"run_id": "r", "metrics": "x"}, "INVALID_PARAMETER_VALUE"),
        ("runs/set-tag", {"run_id": 31, "key": "k"}, "INVALID_PARAMETER_VALUE"),
        ("artifacts/list?run_id=none&path=..", None, "RESOURCE_DOES_NOT_EXIST"),
    ],
)
def test_what_is_wrong_is_said_in_mlflows_words(
    api: TestClient, path: str, body: Any, code: str
) -> None:
    assert ask(api, path, body, code)["message"]


def test_who_may_come_in(api: TestClient, run_id: str) -> None:
    basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for header, status in (
        (f"Bearer {TOKEN}", 200),
        (f"Basic {basic}", 200),
        ("Basic bWU6d3Jvbmc=", 401),
        ("Bearer wrong", 401),
        ("", 401),
    ):
        reply = api.get(
            BASE + "runs/get", params={"run_id": run_id}, headers={"Authorization": header}
        )
        assert reply.status_code == status
    assert api.get(f"{ROOT}/other/api/2.0/mlflow/runs/get").status_code == 404
    assert api.get(f"{ROOT}/w/health").text == "OK"


def test_what_a_script_spools_is_logged_as_mlflow_would(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    own, _, token = started(api, plane, snapshot)
    lines = [
        {"t": 1.0, "k": "param", "n": "lr", "v": "0.1"},
        {"t": 1.0, "k": "param", "n": "lr", "v": "0.2"},
        {"t": 1.0, "k": "tag", "n": "mlflow.runName", "v": "best"},
        {"t": 1.5, "k": "scalar", "n": "loss", "v": 0.5, "s": 3},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    reply = api.post(f"runs/{own}/spool/m", params={"offset": 0}, content=data, headers=token)
    assert reply.status_code == 200
    run = shown(api, own)
    assert run["info"]["run_name"] == "best"
    assert run["data"]["params"] == [{"key": "lr", "value": "0.1"}]
    assert run["data"]["metrics"] == [{"key": "loss", "value": 0.5, "timestamp": 1500, "step": 3}]


def test_links_that_clients_print_lead_to_the_page(api: TestClient) -> None:
    reply = api.get(f"{ROOT}/w/", headers={"Authorization": ""}, follow_redirects=False)
    assert reply.status_code == 307
    assert reply.headers["location"] == "/view/?workspace=w"


def test_clients_are_told_what_they_ask_for_first(api: TestClient) -> None:
    told = api.get(f"{ROOT}/w/api/3.0/mlflow/server-info").json()
    assert told["workspaces_enabled"] is False
    assert api.get(f"{ROOT}/w/health").text == "OK"


def test_who_sends_in_parts_is_told_to_send_it_whole(api: TestClient, run_id: str) -> None:
    path = f"{ROOT}/w/api/2.0/mlflow-artifacts/mpu/create/0/{run_id}/artifacts"
    reply = api.post(path, json={"path": "model.bin", "num_parts": 3})
    assert reply.status_code == 501
    assert reply.json()["message"].startswith("Multipart upload is not supported for the current")
