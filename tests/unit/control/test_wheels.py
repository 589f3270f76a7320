"""Wheels of a workspace: kept by content, reached by its runs, never cleared away."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, make_plane, run_fields
from wherry.api.app import create_app
from wherry.control import attempt_tokens, environments, garbage, submit, wheels, workspaces
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.control.submit_many import submit_many
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.drivers.memory import MemoryDriver
from wherry.store import attempts
from wherry.store.database import Database

NAME = "mine-1.0-py3-none-any.whl"


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, reconcile=False)) as client:
        client.base_url = client.base_url.join("/api/v1/")
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


def fields(content: bytes, name: str = NAME, **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "digest": digest, "size": len(content), "exist_ok": False, **more}


def add(plane: Plane, content: bytes, name: str = NAME, workspace: str = "w", **more: Any) -> str:
    plane.blobs.put([content])
    record, _ = wheels.add(plane, workspace, fields(content, name, **more), "me")
    assert record is not None
    return record.address


def asking(*pip: str) -> dict[str, Any]:
    return {"python": {"conda": {"dependencies": [{"pip": list(pip)}]}}}


def test_it_is_kept_once_its_content_is_here(api: TestClient) -> None:
    body = fields(b"1")
    missing = api.post("workspaces/w/wheels", json=body)
    assert (missing.status_code, missing.json()) == (200, {"missing": [body["digest"]]})
    assert api.get("workspaces/w/wheels").json()["items"] == []
    assert api.post("blobs", content=f"{body['digest']} 1\n1").json() == {"stored": 1}
    made = api.post("workspaces/w/wheels", json=body)
    assert made.status_code == 201
    assert made.json()["address"] == f"wherry://wheels/{body['digest']}/{NAME}"
    again = api.post("workspaces/w/wheels", json=body)
    assert (again.status_code, again.json()) == (200, made.json())
    (listed,) = api.get("workspaces/w/wheels").json()["items"]
    assert {**listed, "missing": []} == made.json()
    assert (listed["size"], listed["created_by"]) == (1, "owner")
    for wrong in ({"size": 2}, {"name": "mine.whl"}, {"digest": "1"}, {"size": -1}):
        assert api.post("workspaces/w/wheels", json={**body, **wrong}).status_code in (400, 422)
    assert api.post("workspaces/none/wheels", json=body).status_code == 404


def test_another_content_of_a_name_is_refused_unless_both_are_wanted(plane: Plane) -> None:
    first = add(plane, b"1")
    assert add(plane, b"1") == first
    with pytest.raises(ConflictError, match=f"keeps a wheel {NAME} already, with another content"):
        wheels.add(plane, "w", fields(b"2"), "me")  # before anything is sent
    second = add(plane, b"2", exist_ok=True)
    assert first != second
    assert [each.address for each in wheels.every(plane, "w")] == [second, first]
    assert add(plane, b"1") == first
    workspaces.create(plane, "other", exist_ok=False, description="", tags={})
    assert add(plane, b"2", workspace="other") == second


def test_many_at_once_keep_one(plane: Plane) -> None:
    plane.blobs.put([b"1"])
    made: list[Any] = []

    def work() -> None:
        made.append(wheels.add(plane, "w", fields(b"1"), "me"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created for _, created in made) == [False] * 7 + [True]
    assert len(wheels.every(plane, "w")) == 1


def test_what_is_kept_is_not_cleared_away(plane: Plane) -> None:
    add(plane, b"1")
    plane.blobs.put([b"sent, and never added"])
    assert garbage.collect(plane, spared=timedelta(seconds=-60)) == 1
    digest = hashlib.sha256(b"1").hexdigest()
    assert plane.blobs.has(digest)
    workspaces.create(plane, "gone", exist_ok=False, description="", tags={})
    add(plane, b"2", workspace="gone")
    workspaces.remove(plane, "gone")
    assert garbage.collect(plane, spared=timedelta(seconds=-60)) == 1
    assert plane.blobs.has(digest)


def test_environments_name_those_that_their_workspace_keeps(plane: Plane) -> None:
    address = add(plane, b"1")
    workspaces.create(plane, "other", exist_ok=False, description="", tags={})
    body = {"name": "train", "specification": asking("six", f"mine @ {address}")}
    assert environments.register(plane, "w", body, "me")[1]
    with pytest.raises(NotFoundError, match=f"'other' does not keep the wheel {NAME}"):
        environments.register(plane, "other", body, "me")
    locked = {"lock": {"pylock": f'archive = {{ url = "{address}" }}'}}
    for python in (asking(address)["python"], locked):
        wanted = {"environment": {"specification": {"python": python}}}
        here, there = (
            run_fields(add_snapshot(plane, {"train.py": b"1"}, workspace), **wanted)
            for workspace in ("w", "other")
        )
        assert submit.submit(plane, "w", here, "me")[1]
        assert submit_many(plane, "w", [here], "me")
        with pytest.raises(NotFoundError, match=f"'other' does not keep the wheel {NAME}"):
            submit.submit(plane, "other", there, "me")
        with pytest.raises(NotFoundError, match=f"'other' does not keep the wheel {NAME}"):
            submit_many(plane, "other", [there], "me")


def test_a_run_reads_those_of_its_workspace_with_its_own_token(
    plane: Plane, api: TestClient
) -> None:
    add(plane, b"0123456789")
    workspaces.create(plane, "other", exist_ok=False, description="", tags={})
    add(plane, b"not ours", workspace="other")
    run, _ = submit.submit(plane, "w", run_fields(add_snapshot(plane, {"train.py": b"1"})), "me")
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    with plane.database.read() as connection:
        (attempt,) = attempts.of_run(connection, run.id)
    mine = {"Authorization": f"Bearer {attempt_tokens.make(plane, attempt.id, run.id)}"}

    def get(content: bytes, **headers: str) -> Any:
        digest = hashlib.sha256(content).hexdigest()
        return api.get(f"runs/{run.id}/wheels/{digest}", headers={**mine, **headers})

    assert get(b"0123456789").content == b"0123456789"
    assert get(b"0123456789", Range="bytes=8-").content == b"89"
    assert get(b"not ours").status_code == 404
    assert get(b"1").status_code == 404  # a file of its source, no wheel
    assert api.get(f"runs/{run.id}/wheels/0", headers=mine).status_code == 400
    assert api.get("workspaces/w/wheels", headers=mine).status_code == 403
    assert api.post("workspaces/w/wheels", json=fields(b"1"), headers=mine).status_code == 403


def test_a_content_that_was_lost_is_told_and_can_be_given_again(
    plane: Plane, api: TestClient, tmp_path: Path
) -> None:
    add(plane, b"1")
    run, _ = submit.submit(plane, "w", run_fields(add_snapshot(plane, {"train.py": b"2"})), "me")
    digest = hashlib.sha256(b"1").hexdigest()
    next((tmp_path / "home" / "blobs").glob(f"*/{digest}")).unlink()
    lost = api.get(f"runs/{run.id}/wheels/{digest}")
    assert lost.status_code == 404
    assert "is no longer on the server" in lost.json()["detail"]
    assert wheels.add(plane, "w", fields(b"1"), "me") == (None, False)
    add(plane, b"1")
    assert api.get(f"runs/{run.id}/wheels/{digest}").content == b"1"
    with pytest.raises(UserErrorException, match="has 1 bytes under its digest, not 7"):
        wheels.add(plane, "w", {**fields(b"1"), "size": 7}, "me")
