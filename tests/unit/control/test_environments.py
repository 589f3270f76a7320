"""Environments of a workspace: registered, found, kept with runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from tests.planes import TOKEN, add_snapshot, make_plane, run_fields
from wherry import CondaDependencies, Environment, UserErrorException
from wherry.api.app import create_app
from wherry.control import (
    attempt_tokens,
    curated,
    environments,
    garbage,
    launch,
    runs,
    sealing,
    submit,
    workspaces,
)
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.control.submit_many import submit_many
from wherry.core import environments as core
from wherry.core.errors import (
    ConflictError,
    NotFoundError,
    from_problem,
)
from wherry.core.placement import Placement
from wherry.core.settings import resolve
from wherry.core.specs import RunSpec
from wherry.drivers.base import Launch
from wherry.drivers.memory import MemoryDriver
from wherry.store import attempts
from wherry.store.database import Database

SECRET = "geheim-4711"


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, reconcile=False)) as client:
        client.base_url = client.base_url.join("/api/v1/")
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


def conda(*packages: str) -> dict[str, Any]:
    return {"python": {"conda": {"dependencies": ["python=3.11", *packages]}}}


def register(plane: Plane, *packages: str, **fields: Any) -> tuple[str, bool]:
    body = {"name": "train", "specification": conda(*packages), **fields}
    record, created = environments.register(plane, "w", body, "me")
    return record.version, created


def test_the_same_content_is_the_same_version(plane: Plane) -> None:
    assert register(plane, "numpy") == ("1", True)
    assert register(plane, "numpy") == ("1", False)
    assert register(plane, "numpy", "scipy") == ("2", True)
    assert register(plane, "numpy") == ("1", False)
    other = {**conda("numpy"), "variables": {"A": "1"}}
    assert register(plane, specification=other) == ("3", True)
    assert register(plane, specification=other) == ("3", False)
    assert environments.show(plane, "w", core.Reference("train")).version == "3"


def test_versions_that_are_named(plane: Plane) -> None:
    assert register(plane, "numpy", version="2024-01-31") == ("2024-01-31", True)
    assert register(plane, "numpy", version="7") == ("7", True)
    assert register(plane, "numpy", version="7") == ("7", False)
    assert register(plane, "scipy") == ("8", True)
    with pytest.raises(ConflictError, match="has a version '7' already, with another content"):
        register(plane, "scipy", version="7")
    found = environments.versions(plane, "w", "train")
    assert [record.version for record in found] == ["8", "7", "2024-01-31"]


def test_many_at_once_leave_no_gap(plane: Plane) -> None:
    made: list[str] = []

    def work(number: int) -> None:
        made.append(register(plane, f"numpy=1.{number}")[0])
        made.append(register(plane, f"numpy=1.{number}")[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(made), key=int) == [str(number) for number in range(1, 9)]
    assert len(made) == 16


def test_what_is_wrong_is_a_sentence_and_changes_nothing(plane: Plane) -> None:
    for fields, said in (
        ({"name": "a b"}, "'a b' is not a valid environment name"),
        ({"name": "Wherry-mine"}, "kept for curated environments"),
        ({"name": "azureml-mine"}, "kept for curated environments"),
        ({"version": "latest"}, "environment 'train': 'latest' is no version"),
        ({"specification": {"pyton": 1}}, "environment 'train' has a field 'pyton'"),
    ):
        with pytest.raises(UserErrorException, match=said):
            register(plane, **fields)
    docker = {"enabled": True, "dockerfile": "FROM a", "context": "nosuch"}
    with pytest.raises(NotFoundError, match="no snapshot 'nosuch' to build an image from"):
        register(plane, specification={"docker": docker})
    with pytest.raises(NotFoundError, match="no environment 'train'"):
        environments.versions(plane, "w", "train")


def test_finding(plane: Plane) -> None:
    register(plane, "numpy")
    register(plane, "scipy")
    for reference, version in (
        ("train", "2"),
        ("train:1", "1"),
        ("azureml:train:2", "2"),
        ("azureml:train@latest", "2"),
        ("train:latest", "2"),
    ):
        assert environments.referred(plane, "w", reference).version == version
    for reference in ("train@", "train:"):
        with pytest.raises(UserErrorException, match="names no environment"):
            environments.referred(plane, "w", reference)
    with pytest.raises(NotFoundError, match=r"no version '9'") as caught:
        environments.referred(plane, "w", "train:9")
    assert caught.value.hint == "it has 2, 1"
    with pytest.raises(NotFoundError, match=r"no environment 'trian'; did you mean 'train'"):
        environments.referred(plane, "w", "trian:1")


def test_the_list_has_the_newest_of_each(plane: Plane) -> None:
    register(plane, "numpy")
    register(plane, "scipy")
    register(plane, "numpy", name="other")
    found = {record.name: record.version for record in environments.every(plane, "w")}
    assert found["train"] == "2"
    assert found["other"] == "1"
    assert found["Wherry-sklearn"] == "1"


def test_curated_environments() -> None:
    for record in curated.newest("w"):
        lines = [line for line in core.pip_of(record.specification["python"]["conda"])]
        assert all("==" in line or "@" in line for line in lines), record.name
        assert core.parse(record.specification) == record.specification
    with pytest.raises(NotFoundError, match="did you mean 'Wherry-sklearn'"):
        curated.get("w", "Wherry-sklern", None)
    with pytest.raises(NotFoundError, match="has no version '99'"):
        curated.get("w", "Wherry-sklearn", "99")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("AzureML-Minimal", "Wherry-minimal"),
        ("AzureML-Tutorial", "Wherry-sklearn"),
        ("AzureML-Scikit-learn-0.20.3", "Wherry-sklearn"),
        ("AzureML-sklearn-1.5", "Wherry-sklearn"),
        ("AzureML-AutoML", "Wherry-sklearn"),
        ("AzureML-lightgbm-3.3", "Wherry-lightgbm"),
        ("AzureML-PyTorch-1.6-CPU", "Wherry-pytorch-cpu"),
        ("AzureML-PyTorch-1.6-GPU", "Wherry-pytorch-cuda"),
        ("AzureML-acpt-pytorch-2.8-cuda12.6", "Wherry-pytorch-cuda"),
        ("AzureML-tensorflow-2.16-cuda12", "Wherry-tensorflow-cpu"),
        ("AzureML-Dask-CPU", "Wherry-dask"),
        ("AzureML-PySpark-MmlSpark-0.15", "Wherry-pyspark"),
    ],
)
def test_azure_mls_names_lead_to_the_nearest(theirs: str, ours: str) -> None:
    found = curated.get("w", theirs, "7")
    assert found.name == ours
    assert str(found.notice).startswith(f"{theirs} is Azure ML's; {ours} version 1 stands in")


def test_secrets_are_sealed(plane: Plane) -> None:
    registry = {"address": "r.io", "username": "me", "password": SECRET}
    spec = {
        "docker": {"enabled": True, "image": "r.io/a", "registry": registry},
        "variables": {"KEY": SECRET},
    }
    register(plane, specification=spec)
    with plane.database.read() as connection:
        kept = connection.execute(text("SELECT CAST(spec AS TEXT) FROM environments")).scalar()
    assert SECRET not in str(kept)
    found = environments.show(plane, "w", core.Reference("train", "1")).specification
    assert found["variables"] == {"KEY": SECRET}
    assert found["docker"]["registry"] == registry
    plane.secret = b"another"
    with pytest.raises(sealing.UnsealError, match="another key"):
        environments.show(plane, "w", core.Reference("train", "1"))
    (listed,) = environments.versions(plane, "w", "train")
    assert listed.specification["variables"] == {"KEY": sealing.LOST}


def test_logins_of_addresses_are_sealed(plane: Plane, api: TestClient) -> None:
    login = f"--index-url https://me:{SECRET}@host/simple"
    channel = f"https://host/t/{SECRET}/own"
    asked = {
        "python": {
            "conda": {"channels": [channel], "dependencies": [{"pip": [login, "six"]}]},
            "lines": {login: 3},
        },
        "docker": {"enabled": True, "image": "a", "arguments": ["-e", f"A={SECRET}"]},
    }
    fields = {"name": "e", "specification": asked}
    made = api.post("workspaces/w/environments", json=fields).json()
    assert made["specification"] == {**asked, "python": {**asked["python"], "user_managed": False}}
    assert api.post("workspaces/w/environments", json=fields).status_code == 200
    run_body = run_fields(
        add_snapshot(plane, {"train.py": b"1"}), environment={"specification": asked}
    )
    run = api.post("workspaces/w/runs", json=run_body).json()
    assert run["spec"]["environment"]["specification"]["python"]["conda"]["channels"] == [channel]
    with plane.database.read() as connection:
        for table in ("environments", "runs"):
            kept = connection.execute(text(f"SELECT CAST(spec AS TEXT) FROM {table}")).scalar_one()
            assert SECRET not in kept
            assert "https://***@host/simple" in kept
    stored = runs.show(plane, run["id"]).spec or {}
    for lost in (sealing.shown(plane.secret, run["id"], stored, values=False),
                 sealing.shown(b"another", run["id"], stored, values=True)):  # fmt: skip
        assert SECRET not in str(lost)
        assert "https://***@host/simple" in str(lost)
    plane.secret = b"another"
    listed = api.get("workspaces/w/environments").text
    assert "https://***@host/simple" in listed


def test_a_run_uses_environments_whose_secrets_it_does_not_see(
    plane: Plane, api: TestClient
) -> None:
    login = f"--index-url https://me:{SECRET}@host/simple"
    registry = {"address": "r.io", "username": "me", "password": SECRET}
    asked: dict[str, Any] = {
        "python": {"conda": {"dependencies": [{"pip": [login, "six"]}]}, "lines": {login: 3}},
        "docker": {"enabled": True, "image": "a", "arguments": ["-e", f"A={SECRET}"],
                   "registry": registry},
        "variables": {"KEY": SECRET, "PLAIN": "1"},
    }  # fmt: skip
    api.post("workspaces/w/environments", json={"name": "e", "specification": asked})
    api.put("workspaces/w/environments/e/labels/stable", json={"version": "1"})
    snapshot = add_snapshot(plane, {"train.py": b"1"})
    own = {"specification": {"docker": asked["docker"]}, "environment_variables": {"MINE": SECRET}}
    run = api.post("workspaces/w/runs", json=run_fields(snapshot, environment=own)).json()["id"]
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    with plane.database.read() as connection:
        (attempt,) = attempts.of_run(connection, run)
    mine = {"Authorization": f"Bearer {attempt_tokens.make(plane, attempt.id, run)}"}
    for path in ("", "/e", "/e/versions/1", "/e/versions/latest", "/e/labels/stable"):
        assert SECRET in api.get(f"workspaces/w/environments{path}").text
        seen = api.get(f"workspaces/w/environments{path}", headers=mine)
        assert seen.status_code == 200
        assert SECRET not in seen.text
        assert "KEY" in seen.text
    assert SECRET in api.get(f"runs/{run}", headers=mine).text  # of its own, it sees all
    spec = api.get("workspaces/w/environments/e/versions/1", headers=mine).json()["specification"]
    variables = {**spec.pop("variables"), "PLAIN": "2"}
    sent = {"name": "e", "version": "1", "environment_variables": variables, "specification": spec}
    body = run_fields(snapshot, environment=sent, parent_id=run)
    child = api.post("workspaces/w/runs", json=body, headers=mine)
    assert child.status_code == 201
    assert SECRET not in child.text
    found = api.get(f"runs/{child.json()['id']}").json()["spec"]["environment"]
    assert found["environment_variables"] == {"KEY": SECRET, "PLAIN": "2"}
    wanted = {**asked, "python": {**asked["python"], "user_managed": False}}
    del wanted["variables"]
    assert found["specification"] == wanted
    for other in ({"version": "2"}, {"name": "f"}, {"name": "Wherry-sklearn"}):
        body["environment"] = {**sent, **other}
        reply = api.post("workspaces/w/runs", json=body)
        assert SECRET not in reply.text  # of no other one


def test_a_password_of_a_runs_registry_is_sealed(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = add_snapshot(plane, {"train.py": b"1"})
    docker = {"enabled": True, "image": "a", "registry": {"address": "r", "password": SECRET}}
    fields = run_fields(snapshot, environment={"specification": {"docker": docker}})
    run, _ = submit.submit(plane, "w", fields, "me")
    kept = runs.show(plane, run.id).spec or {}
    assert SECRET not in json.dumps(kept)
    hidden = sealing.shown(plane.secret, run.id, kept, values=False)
    assert hidden["environment"]["specification"]["docker"]["registry"]["password"] == "(hidden)"
    clear = sealing.opened(plane.secret, run.id, kept)
    assert clear["environment"]["specification"]["docker"] == docker


def watched(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Launch], Any]:
    """What the driver is asked to start, and the driver."""
    launched: list[Launch] = []
    driver = plane.drivers["local"]
    start = driver.submit

    def submit(launch: Launch) -> Any:
        launched.append(launch)
        return start(launch)

    monkeypatch.setattr(driver, "submit", submit)
    return launched, driver


def test_a_run_keeps_what_its_reference_meant(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched, driver = watched(plane, monkeypatch)
    register(plane, specification={**conda("numpy"), "variables": {"A": "1", "B": "1"}})
    snapshot = add_snapshot(plane, {"train.py": b"1"})
    asked = {"reference": "train", "environment_variables": {"B": "2"}}
    run, _ = submit.submit(plane, "w", run_fields(snapshot, environment=asked), "me")
    register(plane, "scipy")
    Reconciler(plane, "local", driver).tick()
    manifest = json.loads(launched[0].files["manifest.json"])
    assert manifest["environment"]["name"] == "train"
    assert manifest["environment"]["version"] == "1"
    assert manifest["environment"]["python"]["conda"]["dependencies"] == ["python=3.11", "numpy"]
    assert "variables" not in manifest["environment"]
    assert (manifest["env"]["A"], manifest["env"]["B"]) == ("1", "2")
    assert (runs.show(plane, run.id).spec or {})["environment"]["version"] == "1"


def test_an_interpreter_alone_needs_no_preparation(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched, driver = watched(plane, monkeypatch)
    snapshot = add_snapshot(plane, {"train.py": b"1"})
    submit.submit(plane, "w", run_fields(snapshot), "me")
    Reconciler(plane, "local", driver).tick()
    assert json.loads(launched[0].files["manifest.json"])["environment"] is None


def test_the_setting_says_whence_conda_packages_come(plane: Plane) -> None:
    plane.settings = resolve({"conda.resolver": "pypi"}, {})
    for python, chosen in (({}, "pypi"), ({"resolver": "rattler"}, "rattler")):
        wanted = {"specification": {"python": {**conda("numpy")["python"], **python}}}
        spec = RunSpec.parse({"experiment": "e", "script": "a.py", "environment": wanted})
        found = launch.describe(
            plane, spec, "r", "a", Placement("n", spec.resources), {}, launch.reach_of(plane, "")
        )
        manifest = json.loads(found.files["manifest.json"])
        assert manifest["environment"]["python"]["resolver"] == chosen


def test_names_are_not_said_twice(plane: Plane) -> None:
    fields = run_fields("x", environment={"specification": {"variables": {"A": "1"}}})
    with pytest.raises(UserErrorException, match="says 'variables', which is said beside it"):
        submit.submit(plane, "w", fields, "me")


def test_a_build_context_is_kept_as_long_as_its_environment(plane: Plane) -> None:
    used, unused = (add_snapshot(plane, {"Dockerfile": text}) for text in (b"FROM a", b"FROM b"))
    docker = {"enabled": True, "dockerfile": "FROM a", "context": used}
    register(plane, specification={"docker": docker})
    garbage.collect(plane, spared=timedelta(seconds=-1))
    assert plane.blobs.has(used)
    assert not plane.blobs.has(unused)


def test_a_build_context_is_kept_as_long_as_a_run_of_it(plane: Plane) -> None:
    """Though the environment was never registered: the run may wait in a queue for days."""
    source = add_snapshot(plane, {"train.py": b"1"})
    one, other = (add_snapshot(plane, {"Dockerfile": text}) for text in (b"FROM a", b"FROM b"))

    def asked(context: str) -> dict[str, Any]:
        docker = {"enabled": True, "dockerfile": "FROM a", "context": context}
        return run_fields(source, environment={"specification": {"docker": docker}})

    run, _ = submit.submit(plane, "w", asked(one), "me")
    submit_many(plane, "w", [asked(other)], "me")
    garbage.collect(plane, spared=timedelta(seconds=-1))
    assert plane.blobs.has(one)
    assert plane.blobs.has(other)
    runs.cancel(plane, run.id)
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    runs.remove(plane, run.id)
    garbage.collect(plane, spared=timedelta(seconds=-1))
    assert not plane.blobs.has(one)
    assert plane.blobs.has(other)


def test_a_run_reaches_the_build_context_of_its_image(api: TestClient, plane: Plane) -> None:
    source, context, other = (
        add_snapshot(plane, {"train.py": text}) for text in (b"1", b"FROM a", b"FROM b")
    )
    docker = {"enabled": True, "dockerfile": "FROM a", "context": context}
    wanted = {"environment": {"specification": {"docker": docker}}}
    run, _ = submit.submit(plane, "w", run_fields(source, **wanted), "me")
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    with plane.database.read() as connection:
        (attempt,) = attempts.of_run(connection, run.id)
    token = attempt_tokens.make(plane, attempt.id, run.id)
    mine = {"Authorization": f"Bearer {token}"}
    answers = [
        api.get(f"snapshots/{each}/archive", headers=mine).status_code
        for each in (source, context, other)
    ]
    assert answers == [200, 200, 403]
    docker["context"] = "nosuch"
    with pytest.raises(NotFoundError, match="has no snapshot 'nosuch'"):
        submit.submit(plane, "w", run_fields(source, **wanted), "me")
    with pytest.raises(NotFoundError, match="has no snapshot 'nosuch'"):
        submit_many(plane, "w", [run_fields(source, **wanted)], "me")


def test_they_go_with_their_workspace(plane: Plane) -> None:
    workspaces.create(plane, "gone", exist_ok=False, description="", tags={})
    body = {"name": "train", "specification": conda("numpy")}
    environments.register(plane, "gone", body, "me")
    environments.label(plane, "gone", "train", "stable", "1")
    workspaces.remove(plane, "gone")
    workspaces.create(plane, "gone", exist_ok=False, description="", tags={})
    assert "train" not in [each.name for each in environments.every(plane, "gone")]


def test_over_http(api: TestClient) -> None:
    body = {"name": "train", "specification": conda("numpy"), "tags": {"a": "1"}}
    assert api.post("workspaces/w/environments", json=body).status_code == 201
    again = api.post("workspaces/w/environments", json=body)
    assert (again.status_code, again.json()["version"]) == (200, "1")
    found = api.get("workspaces/w/environments/train/versions/latest").json()
    assert (found["version"], found["tags"], found["created_by"]) == ("1", {"a": "1"}, "owner")
    assert api.get("workspaces/w/environments/train").json()["items"] == [found]
    assert found in api.get("workspaces/w/environments").json()["items"]
    assert api.get("workspaces/w/environments/train/versions/2").status_code == 404
    assert api.get("workspaces/none/environments").status_code == 404
    bad = {"name": "train", "specification": {"name": "a\0"}}
    assert api.post("workspaces/w/environments", json=bad).status_code == 400


class Bridge:
    """The SDK's client, over the application itself."""

    def __init__(self, api: TestClient) -> None:
        self._api = api

    def get(self, path: str) -> Any:
        return self._answer(self._api.get(path.lstrip("/")))

    def post(self, path: str, json: Any, retry: bool) -> Any:
        return self._answer(self._api.post(path.lstrip("/"), json=json))

    def request(self, method: str, path: str, json: Any, retry: bool) -> Any:
        return self._answer(self._api.request(method, path.lstrip("/"), json=json))

    def delete(self, path: str) -> Any:
        return self._answer(self._api.delete(path.lstrip("/")))

    def _answer(self, reply: Any) -> Any:
        if reply.status_code >= 400:
            raise from_problem(reply.json())
        return reply.json() if reply.content else None


@pytest.fixture
def workspace(api: TestClient) -> Any:
    return SimpleNamespace(name="w", _client=Bridge(api), take_snapshot=lambda folder: folder)


def test_with_the_sdk(workspace: Any, capsys: pytest.CaptureFixture[str]) -> None:
    environment = Environment("train")
    environment.python.conda_dependencies = CondaDependencies.create(conda_packages=["numpy"])
    environment.environment_variables = {"A": "1"}
    first = environment.register(workspace)
    assert first.version == "1"
    assert environment.register(workspace).version == "1"
    first.python.conda_dependencies.add_conda_package("scipy")
    assert first.register(workspace).version == "2"
    found = Environment.get(workspace, "train", version="1")
    assert found.python.conda_dependencies == environment.python.conda_dependencies
    assert found.environment_variables == {"A": "1"}
    assert Environment.get(workspace, "train", label="latest").version == "2"
    assert Environment.get(workspace, "train").version == "2"
    listed = Environment.list(workspace)
    assert listed["train"].version == "2"
    text = listed["Wherry-sklearn"].python.conda_dependencies.serialize_to_string()
    assert "- scikit-learn==" in text
    assert capsys.readouterr().err == ""
    assert Environment.get(workspace, "AzureML-Tutorial").name == "Wherry-sklearn"
    assert "AzureML-Tutorial is Azure ML's" in capsys.readouterr().err


def test_a_label_is_on_one_version(workspace: Any, api: TestClient, plane: Plane) -> None:
    for package in ("numpy", "scipy"):
        register(plane, package)
    Environment.label(workspace, "train", "1", ["stable", "old"])
    assert Environment.get(workspace, "train", label="stable").version == "1"
    assert environments.versions(plane, "w", "train")[1].labels == ["old", "stable"]
    Environment.label(workspace, "train", "2", ["stable"])
    assert Environment.get(workspace, "train", label="stable").version == "2"
    assert Environment.get(workspace, "train", label="old").version == "1"
    assert Environment._referred(workspace, "azureml:train@old").version == "1"
    assert environments.referred(plane, "w", "train@stable").version == "2"
    assert [each.labels for each in environments.every(plane, "w")][:1] == [["stable"]]
    found = api.get("workspaces/w/environments/train/labels/latest").json()
    assert (found["version"], found["labels"]) == ("2", ["stable"])


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (("train", "1", ["latest"]), "'latest' is no label that can be put"),
        (("train", "1", ["good", "a b"]), "'a b' is no label"),
        (("train", "1", "stable"), "labels is 'stable', not a list"),
        (("train", "9", ["stable"]), "has no version '9'"),
        (("trian", "1", ["stable"]), "no environment 'trian'; did you mean 'train'"),
        (("Wherry-sklearn", "1", ["stable"]), "is curated, and gets no label"),
    ],
)
def test_labels_that_cannot_be_put(workspace: Any, plane: Plane, label: Any, said: str) -> None:
    register(plane, "numpy")
    with pytest.raises((UserErrorException, NotFoundError), match=said):
        Environment.label(workspace, *label)
    assert environments.versions(plane, "w", "train")[0].labels == []


def test_a_label_is_taken_away(workspace: Any, api: TestClient, plane: Plane) -> None:
    register(plane, "numpy")
    Environment.label(workspace, "train", "1", ["stable", "old"])
    Environment.unlabel(workspace, "train", ["stable"])
    assert environments.versions(plane, "w", "train")[0].labels == ["old"]
    with pytest.raises(NotFoundError, match="has no label 'stable'") as caught:
        Environment.unlabel(workspace, "train", ["stable"])
    assert caught.value.hint == "it has latest, old"
    with pytest.raises(UserErrorException, match="'latest' is no label"):
        Environment.unlabel(workspace, "train", ["old", "latest"])
    with pytest.raises(NotFoundError, match="no environment 'trian'; did you mean 'train'"):
        Environment.unlabel(workspace, "trian", ["old"])
    with pytest.raises(NotFoundError, match="'Wherry-sklearn' has no label 'old'"):
        Environment.unlabel(workspace, "Wherry-sklearn", ["old"])
    assert environments.versions(plane, "w", "train")[0].labels == ["old"]
    assert api.delete("workspaces/w/environments/train/labels/old").status_code == 204


def test_labels_that_are_not_there(workspace: Any, plane: Plane) -> None:
    register(plane, "numpy")
    Environment.label(workspace, "train", "1", ["stable"])
    with pytest.raises(NotFoundError, match="no label 'stabel'; did you mean 'stable'") as caught:
        Environment.get(workspace, "train", label="stabel")
    assert caught.value.hint == "it has latest, stable"
    with pytest.raises(NotFoundError, match="'Wherry-sklearn' has no label 'stable'"):
        Environment.get(workspace, "Wherry-sklearn", label="stable")


def test_details_of_its_image(workspace: Any) -> None:
    environment = Environment.from_docker_image("boxed", "python:3.11-slim")
    with pytest.raises(NotFoundError, match="no environment 'boxed'"):
        environment.get_image_details(workspace)
    environment.register(workspace)
    found = environment.get_image_details(workspace)
    assert found["dockerImage"]["name"] == "python:3.11-slim"
    assert found["imageExistsInRegistry"]
    made = Environment.from_dockerfile("made", "FROM a\n").register(workspace)
    assert made.get_image_details(workspace)["ingredients"]["dockerfile"] == "FROM a\n"


def test_mistakes_with_the_sdk(workspace: Any) -> None:
    with pytest.raises(UserErrorException, match="both a version and a label"):
        Environment.get(workspace, "train", "1", "latest")
    with pytest.raises(NotFoundError, match="no environment 'train'"):
        Environment.get(workspace, "train", label="stable")
    with pytest.raises(NotFoundError, match="no environment 'train'"):
        Environment.get(workspace, "train")
    with pytest.raises(UserErrorException, match="not a valid environment name"):
        Environment("").register(workspace)
