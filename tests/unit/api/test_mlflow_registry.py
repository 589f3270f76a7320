"""The registry of models in MLflow's own words."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from wherry.control import runs
from wherry.control.plane import Plane

from .test_api import started
from .test_mlflow import ROOT, ask, run_id, shown
from .test_mlflow_models import change, new_model

__all__ = ["run_id"]
MODEL = {"name": "my model"}


def artifacts(uri: str) -> str:
    return uri.replace("mlflow-artifacts:", f"{ROOT}/w/api/2.0/mlflow-artifacts/artifacts")


def register(api: TestClient, source: str, **fields: Any) -> Any:
    made = ask(api, "model-versions/create", {**MODEL, "source": source, **fields})
    return made["model_version"]


def version(api: TestClient, number: int) -> Any:
    asked = {**MODEL, "version": str(number)}
    return ask(api, "model-versions/get", params=asked)["model_version"]


def downloaded(api: TestClient, number: int) -> str:
    asked = {**MODEL, "version": str(number)}
    return str(ask(api, "model-versions/get-download-uri", params=asked)["artifact_uri"])


@pytest.fixture
def model(api: TestClient) -> Any:
    made = ask(api, "registered-models/create", {**MODEL, "tags": [{"key": "a", "value": "b"}]})
    return made["registered_model"]


@pytest.fixture
def source(api: TestClient, run_id: str, model: Any) -> str:
    uri = shown(api, run_id)["info"]["artifact_uri"]
    for path in ("model/MLmodel", "model/data/m.pkl", "models/other"):
        assert api.put(f"{artifacts(uri)}/{path}", content=path.encode()).status_code == 200
    return f"{uri}/model"


def test_models_are_made_described_renamed_and_deleted(api: TestClient, model: Any) -> None:
    assert model["tags"] == [{"key": "a", "value": "b"}]
    ask(api, "registered-models/create", MODEL, "RESOURCE_ALREADY_EXISTS")
    ask(api, "registered-models/create", {"name": "other"})
    for bad in ("a/b", "a:b", " ", "..", "n" * 256):
        ask(api, "registered-models/create", {"name": bad}, "INVALID_PARAMETER_VALUE")
    change(api, "PATCH", "registered-models/update", {**MODEL, "description": "good"})
    taken = {**MODEL, "new_name": "other"}
    ask(api, "registered-models/rename", taken, "RESOURCE_ALREADY_EXISTS")
    renamed = ask(api, "registered-models/rename", {**MODEL, "new_name": "new"})
    assert renamed["registered_model"]["description"] == "good"
    ask(api, "registered-models/get", params=MODEL, code="RESOURCE_DOES_NOT_EXIST")
    change(api, "DELETE", "registered-models/delete", {"name": "new"})
    change(api, "DELETE", "registered-models/delete", {"name": "new"}, "RESOURCE_DOES_NOT_EXIST")


def test_models_are_searched_by_name_and_tag(api: TestClient, model: Any) -> None:
    for name in ("b", "c"):
        ask(api, "registered-models/create", {"name": name})

    def names(**asked: Any) -> list[str]:
        found = ask(api, "registered-models/search", params=asked)["registered_models"]
        return [each["name"] for each in found]

    assert names() == ["b", "c", "my model"]
    assert names(order_by="name DESC", max_results=2) == ["my model", "c"]
    assert names(filter="name LIKE 'my%' and tags.a = 'b'") == ["my model"]
    assert names(filter="tags.`mlflow.prompt.is_prompt` = 'false'") == ["b", "c", "my model"]
    assert names(filter="tags.`mlflow.prompt.is_prompt` = 'true'") == []
    page = ask(api, "registered-models/search", params={"max_results": 2})
    assert names(page_token=page["next_page_token"]) == ["my model"]
    ask(api, "registered-models/search", params={"filter": "x"}, code="INVALID_PARAMETER_VALUE")


def test_a_version_keeps_its_files_when_its_run_is_gone(
    api: TestClient, plane: Plane, run_id: str, source: str
) -> None:
    made = register(api, source, run_id=run_id)
    assert (made["version"], made["status"], made["source"]) == ("1", "READY", source)
    again = register(api, f"runs:/{run_id}/model")
    assert (again["version"], again["run_id"]) == ("2", run_id)
    ask(api, "runs/update", {"run_id": run_id, "status": "FINISHED"})
    runs.remove(plane, run_id)
    for number in (1, 2):
        place = artifacts(downloaded(api, number))
        assert api.get(f"{place}/data/m.pkl").content == b"model/data/m.pkl"
        assert api.get(f"{place}/other").status_code == 404
        assert api.put(f"{place}/data/m.pkl", content=b"x").status_code == 403
        assert api.delete(f"{place}/data").status_code == 403
    change(api, "DELETE", "registered-models/delete", MODEL)
    with plane.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM files").scalar() == 0


def test_numbers_of_versions_are_not_given_again(api: TestClient, source: str) -> None:
    assert [register(api, source)["version"] for _ in range(3)] == ["1", "2", "3"]
    change(api, "DELETE", "model-versions/delete", {**MODEL, "version": "3"})
    assert register(api, source)["version"] == "4"
    gone = {**MODEL, "version": "3"}
    ask(api, "model-versions/get", params=gone, code="RESOURCE_DOES_NOT_EXIST")
    odd = {**MODEL, "version": "x"}
    ask(api, "model-versions/get", params=odd, code="INVALID_PARAMETER_VALUE")


def test_many_register_at_once(api: TestClient, source: str) -> None:
    with ThreadPoolExecutor(10) as pool:
        made = list(pool.map(lambda _: register(api, source)["version"], range(30)))
    assert sorted(map(int, made)) == list(range(1, 31))
    found = ask(api, "model-versions/search", params={"filter": "name = 'my model'"})
    assert [int(each["version"]) for each in found["model_versions"]] == list(range(30, 0, -1))


def test_a_logged_model_tells_its_versions(api: TestClient, run_id: str, model: Any) -> None:
    logged = new_model(api, run_id)
    uri = logged["artifact_uri"]
    assert api.put(f"{artifacts(uri)}/m.pkl", content=b"weights").status_code == 200
    first = register(api, f"models:/{logged['model_id']}")
    assert (first["model_id"], first["run_id"]) == (logged["model_id"], run_id)
    register(api, uri, model_id=logged["model_id"])
    copied = register(api, "models:/my model/2")
    for number in (1, 2, 3):
        assert api.get(f"{artifacts(downloaded(api, number))}/m.pkl").content == b"weights"
    assert copied["model_id"] == logged["model_id"]
    tags = ask(api, f"logged-models/{logged['model_id']}")["model"]["info"]["tags"]
    assert tags == [
        {"key": "mlflow.modelVersions", "value": '[{"name": "my model", "version": 2}]'}
    ]
    shown = ask(api, f"logged-models/{logged['model_id']}")["model"]["info"]["registrations"]
    assert [each["version"] for each in shown] == ["1", "2", "3"]


def test_what_lies_elsewhere_is_where_it_is(api: TestClient, model: Any) -> None:
    register(api, "s3://bucket/model")
    assert downloaded(api, 1) == "s3://bucket/model"
    for lost in ("models:/m-none", "models:/my model/7"):
        body = {**MODEL, "source": lost}
        ask(api, "model-versions/create", body, "RESOURCE_DOES_NOT_EXIST")
    for bad in ("/etc", "file:///etc", "s3://b/../c", "http://h/%252e%252e/c", "ftp://h/a%00"):
        body = {**MODEL, "source": bad}
        ask(api, "model-versions/create", body, "INVALID_PARAMETER_VALUE")
    assert register(api, "models:/my model/1")["version"] == "2"
    assert downloaded(api, 2) == "s3://bucket/model"


def test_stages(api: TestClient, source: str) -> None:
    for _ in range(3):
        register(api, source)
    staged = {**MODEL, "stage": "production"}
    ask(api, "model-versions/transition-stage", {**staged, "version": "1"})
    alone = {**staged, "version": "2", "archive_existing_versions": True}
    ask(api, "model-versions/transition-stage", alone)
    assert version(api, 1)["current_stage"] == "Archived"
    assert version(api, 2)["current_stage"] == "Production"
    latest = ask(api, "registered-models/get-latest-versions", {**MODEL, "stages": ["Production"]})
    assert [each["version"] for each in latest["model_versions"]] == ["2"]
    every = ask(api, "registered-models/get", params=MODEL)["registered_model"]["latest_versions"]
    assert [each["version"] for each in every] == ["1", "2", "3"]
    for bad in ({"stage": "best"}, {"stage": "Archived", "archive_existing_versions": True}):
        asked = {**MODEL, "version": "1", **bad}
        ask(api, "model-versions/transition-stage", asked, "INVALID_PARAMETER_VALUE")


def test_aliases(api: TestClient, source: str) -> None:
    for _ in range(2):
        register(api, source)
    for number in ("1", "2"):
        ask(api, "registered-models/alias", {**MODEL, "alias": "best", "version": number})
    best = ask(api, "registered-models/alias", params={**MODEL, "alias": "best"})
    assert (best["model_version"]["version"], best["model_version"]["aliases"]) == ("2", ["best"])
    latest = ask(api, "registered-models/alias", params={**MODEL, "alias": "latest"})
    assert latest["model_version"]["version"] == "2"
    for alias in ("latest", "v1", "a b", "a" * 256):
        asked = {**MODEL, "alias": alias, "version": "1"}
        ask(api, "registered-models/alias", asked, "INVALID_PARAMETER_VALUE")
    lost = {**MODEL, "alias": "x", "version": "9"}
    ask(api, "registered-models/alias", lost, "RESOURCE_DOES_NOT_EXIST")
    change(api, "DELETE", "model-versions/delete", {**MODEL, "version": "2"})
    assert ask(api, "registered-models/get", params=MODEL)["registered_model"]["aliases"] == []
    asked = {**MODEL, "alias": "best"}
    ask(api, "registered-models/alias", params=asked, code="INVALID_PARAMETER_VALUE")
    change(api, "DELETE", "registered-models/alias", asked)


def test_versions_are_described_tagged_and_searched(
    api: TestClient, run_id: str, source: str
) -> None:
    register(api, source, run_id=run_id, tags=[{"key": "t", "value": "1"}])
    register(api, "s3://b/m")
    one = {**MODEL, "version": "1"}
    change(api, "PATCH", "model-versions/update", {**one, "description": "good"})
    ask(api, "model-versions/set-tag", {**one, "key": "u.v", "value": "2"})
    assert version(api, 1)["description"] == "good"

    def numbers(filter: str, **asked: Any) -> list[str]:
        found = ask(api, "model-versions/search", params={"filter": filter, **asked})
        return [each["version"] for each in found["model_versions"]]

    assert numbers(f"run_id = '{run_id}' and tags.t = '1' and tags.`u.v` = '2'") == ["1"]
    assert numbers("source_path LIKE 's3://%'") == ["2"]
    assert numbers("version_number > 0", order_by="version_number ASC") == ["1", "2"]
    assert numbers("version_number > 0", order_by="name") == ["2", "1"]
    assert numbers(f"run_id IN ('{run_id}', 'x')") == ["1"]
    change(api, "DELETE", "model-versions/delete-tag", {**one, "key": "u.v"})
    assert version(api, 1)["tags"] == [{"key": "t", "value": "1"}]


def test_a_runs_token_registers_but_deletes_nothing(
    api: TestClient, plane: Plane, snapshot: str, source: str
) -> None:
    _, _, token = started(api, plane, snapshot)
    ask(api, "registered-models/create", {"name": "own"}, headers=token)
    body = {"name": "own", "source": source}
    made = ask(api, "model-versions/create", body, headers=token)["model_version"]
    assert made["user_id"].startswith("run:")
    alias = {"name": "own", "alias": "best", "version": "1"}
    ask(api, "registered-models/alias", alias, headers=token)
    for path in ("registered-models/delete", "model-versions/delete", "registered-models/alias"):
        reply = api.request("DELETE", f"{ROOT}/w/api/2.0/mlflow/{path}", json=alias, headers=token)
        assert reply.json()["error_code"] == "PERMISSION_DENIED"


def test_prompts_are_not_served(api: TestClient, model: Any) -> None:
    tags = [{"key": "mlflow.prompt.is_prompt", "value": "true"}]
    ask(api, "registered-models/create", {"name": "p", "tags": tags}, "NOT_IMPLEMENTED")
    body = {**MODEL, "source": "dummy-source", "tags": tags}
    ask(api, "model-versions/create", body, "NOT_IMPLEMENTED")
