"""Models that runs log, in the words of MLflow 3's clients."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from wherry.control.plane import Plane

from .test_api import started
from .test_mlflow import BASE, ROOT, ask, run_id, shown

__all__ = ["run_id"]


def change(api: TestClient, method: str, path: str, body: Any = None, code: str = "") -> Any:
    reply = api.request(method, BASE + path, json=body)
    assert reply.json().get("error_code", "") == code, reply.text
    return reply.json()


def new_model(api: TestClient, run_id: str | None = None, **fields: Any) -> Any:
    source = {} if run_id is None else {"source_run_id": run_id}
    made = ask(api, "logged-models", {"experiment_id": "0", "name": "m", **source, **fields})
    return made["model"]["info"]


def found(api: TestClient, filter: str = "", **more: Any) -> list[str]:
    asked = {"experiment_ids": ["0"], "filter": filter, **more}
    models = ask(api, "logged-models/search", asked)["models"]
    return [each["info"]["name"] for each in models]


@pytest.fixture
def model(api: TestClient, run_id: str) -> Any:
    return new_model(api, run_id, params=[{"key": "C", "value": "1.0"}])


def test_a_model_is_made_filled_and_finished(api: TestClient, model: Any, run_id: str) -> None:
    assert model["status"] == "LOGGED_MODEL_PENDING"
    assert (model["name"], model["source_run_id"]) == ("m", run_id)
    place = model["artifact_uri"].replace(
        "mlflow-artifacts:", f"{ROOT}/w/api/2.0/mlflow-artifacts/artifacts"
    )
    assert api.put(f"{place}/data/model.pkl", content=b"weights").status_code == 200
    assert api.get(f"{place}/data/model.pkl").content == b"weights"
    assert api.get(f"{place}/data/none").status_code == 404
    assert api.put(f"{place}/../x", content=b"x").status_code in (400, 404)
    one = f"logged-models/{model['model_id']}"
    page = f"{ROOT}/w/ajax-api/2.0/mlflow/{one}/artifacts/files"
    read = api.get(page, params={"artifact_file_path": "data/model.pkl"})
    assert read.content == b"weights"
    listed = ask(api, f"{one}/artifacts/directories", params={"artifact_directory_path": "data"})
    assert listed["files"] == [{"path": "data/model.pkl", "is_dir": False, "file_size": 7}]
    change(api, "PATCH", one, {"status": "DONE"}, "INVALID_PARAMETER_VALUE")
    done = change(api, "PATCH", one, {"status": "LOGGED_MODEL_READY"})["model"]
    assert done["info"]["status"] == "LOGGED_MODEL_READY"
    assert done["data"]["params"] == [{"key": "C", "value": "1.0"}]


def test_parameters_stay_and_tags_change(api: TestClient, model: Any) -> None:
    one = f"logged-models/{model['model_id']}"
    ask(api, f"{one}/params", {"params": [{"key": "d", "value": "2"}]})
    again = {"params": [{"key": "d", "value": "3"}]}
    ask(api, f"{one}/params", again, "INVALID_PARAMETER_VALUE")
    change(api, "PATCH", f"{one}/tags", {"tags": [{"key": "a.b", "value": "1"}]})
    change(api, "PATCH", f"{one}/tags", {"tags": [{"key": "a.b", "value": "2"}]})
    assert ask(api, one)["model"]["info"]["tags"] == [{"key": "a.b", "value": "2"}]
    change(api, "DELETE", f"{one}/tags/a.b")
    change(api, "DELETE", f"{one}/tags/a.b", code="RESOURCE_DOES_NOT_EXIST")
    assert ask(api, one)["model"]["info"]["tags"] == []


def test_a_deleted_model_is_not_found(api: TestClient, model: Any) -> None:
    one = f"logged-models/{model['model_id']}"
    change(api, "DELETE", one)
    ask(api, one, code="RESOURCE_DOES_NOT_EXIST")
    ask(api, one, params={"allow_deleted": "true"})
    assert found(api) == []


def test_metrics_about_a_model_are_the_runs_and_the_models(
    api: TestClient, model: Any, run_id: str
) -> None:
    about = {"model_id": model["model_id"], "timestamp": 5, "dataset_name": "d"}
    points = [
        {"key": "auc", "value": 0.9, "step": 1, **about},
        {**about, "key": "f", "value": "NaN"},
    ]
    for _ in range(2):
        ask(api, "runs/log-batch", {"run_id": run_id, "metrics": points})
    told = ask(api, f"logged-models/{model['model_id']}")["model"]["data"]["metrics"]
    assert [(each["key"], each["value"], each["step"]) for each in told] == [
        ("auc", 0.9, 1),
        ("f", "NaN", 0),
    ]
    assert {each["run_id"] for each in told} == {run_id}
    assert len(shown(api, run_id)["data"]["metrics"]) == 2
    lost = {"run_id": run_id, "key": "k", "value": 1, "timestamp": 1, "model_id": "m-none"}
    ask(api, "runs/log-metric", lost, "RESOURCE_DOES_NOT_EXIST")
    assert len(shown(api, run_id)["data"]["metrics"]) == 2
    assert found(api, "metrics.auc > 0.8") == ["m"]
    assert found(api, "metrics.auc > 0.8", datasets=[{"dataset_name": "e"}]) == []


def test_models_are_searched_ordered_and_paged(api: TestClient, run_id: str) -> None:
    for number, name in enumerate("abc"):
        made = new_model(api, run_id, name=name, tags=[{"key": "t", "value": name}])
        point = {"key": "auc", "value": [0.2, 0.9, 0.5][number], "timestamp": 1}
        about = {"run_id": run_id, "model_id": made["model_id"], **point}
        ask(api, "runs/log-metric", about)
    new_model(api, name="d")
    assert found(api) == ["d", "c", "b", "a"]
    assert found(api, f"source_run_id = '{run_id}' and tags.t != 'a'") == ["c", "b"]
    assert found(api, "name LIKE 'A%'") == []
    assert found(api, "name ILIKE 'A%' and status = 'PENDING'") == ["a"]
    best = [{"field_name": "metrics.auc", "ascending": False}]
    assert found(api, order_by=best) == ["b", "c", "a", "d"]
    assert found(api, order_by=[{"field_name": "name", "ascending": True}]) == ["a", "b", "c", "d"]
    asked: dict[str, Any] = {"experiment_ids": ["0"], "max_results": 3}
    page = ask(api, "logged-models/search", asked)
    rest = ask(api, "logged-models/search", {**asked, "page_token": page["next_page_token"]})
    assert (len(page["models"]), len(rest["models"])) == (3, 1)
    assert "next_page_token" not in rest
    ask(api, "logged-models/search", {**asked, "filter": "a b"}, "INVALID_PARAMETER_VALUE")


def test_a_run_tells_the_models_that_it_took_and_gave(
    api: TestClient, model: Any, run_id: str
) -> None:
    given = {"model_id": model["model_id"], "step": 3}
    for _ in range(2):
        ask(api, "runs/outputs", {"run_id": run_id, "models": [given]})
        ask(api, "runs/log-inputs", {"run_id": run_id, "models": [{"model_id": "m-other"}]})
    run = shown(api, run_id)
    assert run["outputs"]["model_outputs"] == [given]
    assert run["inputs"]["model_inputs"] == [{"model_id": "m-other"}]


def test_older_clients_tell_of_models_among_a_runs_files(api: TestClient, run_id: str) -> None:
    told = '{"artifact_path": "model", "flavors": {}, "run_id": "r"}'
    for _ in range(2):
        ask(api, "runs/log-model", {"run_id": run_id, "model_json": told})
    ask(api, "runs/log-model", {"run_id": run_id, "model_json": "{}"}, "INVALID_PARAMETER_VALUE")
    tags = {each["key"]: each["value"] for each in shown(api, run_id)["data"]["tags"]}
    assert tags["mlflow.log-model.history"].count("artifact_path") == 2


def test_a_runs_token_fills_the_models_of_its_run(
    api: TestClient, plane: Plane, snapshot: str, model: Any, run_id: str
) -> None:
    own, _, token = started(api, plane, snapshot)
    home = shown(api, own)["info"]["experiment_id"]
    made = ask(api, "logged-models", {"experiment_id": home, "name": "own"}, headers=token)
    assert made["model"]["info"]["source_run_id"] == own
    place = f"{ROOT}/w/api/2.0/mlflow-artifacts/artifacts/{home}/models"
    mine, theirs = made["model"]["info"]["model_id"], model["model_id"]
    assert api.put(f"{place}/{mine}/artifacts/a", content=b"a", headers=token).status_code == 200
    assert api.put(f"{place}/{theirs}/artifacts/a", content=b"a", headers=token).status_code == 403
    assert api.get(f"{place}/{mine}/artifacts/a", headers=token).content == b"a"
    other = {"experiment_id": home, "source_run_id": run_id}
    ask(api, "logged-models", other, "PERMISSION_DENIED", headers=token)
    ask(api, f"logged-models/{theirs}/params", {"params": []}, "PERMISSION_DENIED", headers=token)


def test_models_go_with_their_workspace(api: TestClient, plane: Plane) -> None:
    api.post("workspaces", json={"name": "x"})
    base = f"{ROOT}/x/api/2.0/mlflow"
    made = api.post(f"{base}/logged-models", json={"experiment_id": "0"}).json()["model"]["info"]
    where = f"{base}-artifacts/artifacts/{made['experiment_id']}/models/{made['model_id']}"
    assert api.put(f"{where}/artifacts/a", content=b"1").status_code == 200
    assert api.get(BASE + f"logged-models/{made['model_id']}").status_code == 404
    gone = api.delete(f"workspaces/x/experiments/{'Default'}")
    assert gone.status_code == 409
    assert "1 logged models" in gone.json()["detail"]
    assert api.delete("workspaces/x").status_code in (200, 204)
    with plane.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM files").scalar() == 0
