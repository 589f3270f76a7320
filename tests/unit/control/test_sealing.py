"""Values of environment variables: in clear for those who may know them, nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text, update

from tests.planes import TOKEN, add_snapshot, make_plane, run_fields
from wherry.api.app import create_app
from wherry.control import attempt_tokens, environments, resealing, runs, sealing
from wherry.control.plane import Plane, open_plane
from wherry.control.reconciler import Reconciler
from wherry.control.submit import submit
from wherry.control.submit_many import submit_many
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.settings import resolve
from wherry.core.specs import RunSpec
from wherry.drivers.base import Launch
from wherry.drivers.memory import MemoryDriver
from wherry.store import attempts, specs
from wherry.store import tables as t
from wherry.store.database import Database
from wherry.store.migrate import HEAD, migrate

SECRET = "geheim-4711"
KEY = b"k" * 32
VARIABLES = {
    "environment_variables": {"PASSWORD": SECRET, "EMPTY": ""},
    "environment": {"environment_variables": {"API_KEY": SECRET}},
}


def spec(**fields: Any) -> dict[str, Any]:
    return RunSpec.parse({"experiment": "e", "script": "a.py", **fields}).to_dict()


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


@pytest.fixture
def snapshot(plane: Plane) -> str:
    return add_snapshot(plane, {"train.py": b"1"})


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, reconcile=False)) as client:
        client.base_url = client.base_url.join("/api/v1/")
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


def stored(plane: Plane) -> str:
    with plane.database.read() as connection:
        found = connection.execute(text("SELECT id, CAST(spec AS TEXT) FROM runs")).all()
    return "\n".join(f"{run_id} {kept}" for run_id, kept in found)


def test_what_is_sealed_shows_names_alone_and_opens_again() -> None:
    clear = spec(**VARIABLES)
    sealed = sealing.sealed(KEY, "run", clear)
    assert SECRET not in json.dumps(sealed)
    assert sealed["environment_variables"] == {"PASSWORD": "", "EMPTY": ""}
    assert sealing.opened(KEY, "run", sealed) == clear
    assert sealing.sealed(KEY, "run", clear) != sealed


def test_without_variables_there_is_nothing_to_do() -> None:
    clear = spec()
    assert sealing.sealed(KEY, "run", clear) is clear
    assert sealing.opened(KEY, "run", clear) == clear


def test_it_opens_for_its_run_and_key_alone() -> None:
    sealed = sealing.sealed(KEY, "run", spec(**VARIABLES))
    mark = sealed[sealing.SEALED]
    changed = {**sealed, sealing.SEALED: mark[:40] + ("A" if mark[40] != "A" else "B") + mark[41:]}
    for key, run_id, found in (
        (b"o" * 32, "run", sealed),
        (KEY, "other", sealed),
        (KEY, "run", changed),
    ):
        with pytest.raises(sealing.UnsealError, match="another key"):
            sealing.opened(key, run_id, found)


def test_many_threads_seal_at_once() -> None:
    wrong: list[int] = []

    def work(n: int) -> None:
        clear = spec(environment_variables={"N": str(n)})
        for _ in range(200):
            if sealing.opened(KEY, "run", sealing.sealed(KEY, "run", clear)) != clear:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_database_holds_no_value_and_the_node_gets_them(plane: Plane, snapshot: str) -> None:
    run, _ = submit(plane, "w", run_fields(snapshot, **VARIABLES), "owner")
    submit_many(plane, "w", [run_fields(snapshot, **VARIABLES)] * 2, "owner")
    assert stored(plane).count("PASSWORD") == 3
    assert SECRET not in stored(plane)
    driver: Any = plane.drivers["local"]
    Reconciler(plane, "local", driver).tick()
    with plane.database.read() as connection:
        attempt = attempts.of_run(connection, run.id)[0]
    env = driver.backend.attempts[attempt.id].job.env
    assert (env["PASSWORD"], env["API_KEY"], env["EMPTY"]) == (SECRET, SECRET, "")


def test_values_are_shown_to_the_owner_and_the_run_itself(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    parent = api.post("workspaces/w/runs", json=run_fields(snapshot)).json()["id"]
    fields = run_fields(snapshot, parent_id=parent, **VARIABLES)
    made = api.post("workspaces/w/runs", json=fields).json()
    assert made["spec"]["environment_variables"]["PASSWORD"] == SECRET
    assert sealing.SEALED not in made["spec"]
    run_id = made["id"]
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    for caller, values in ((None, True), (run_id, True), (parent, False)):
        headers = _headers(plane, caller) if caller else {}
        for reply in (
            api.get(f"runs/{run_id}", headers=headers),
            api.get(f"runs/{run_id}/wait?timeout_s=0", headers=headers),
            api.patch(f"runs/{run_id}", json={}, headers=headers),
        ):
            assert (SECRET in reply.text) is values
            assert list(reply.json()["spec"]["environment_variables"]) == ["PASSWORD", "EMPTY"]
    listed = api.get("workspaces/w/runs?include_children=true").text
    assert SECRET not in listed
    assert "PASSWORD" not in listed


def _headers(plane: Plane, run_id: str) -> dict[str, str]:
    with plane.database.read() as connection:
        attempt_id = attempts.of_run(connection, run_id)[0].id
    return {"Authorization": f"Bearer {attempt_tokens.make(plane, attempt_id, run_id)}"}


def test_a_lost_key_is_told(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id = api.post("workspaces/w/runs", json=run_fields(snapshot, **VARIABLES)).json()["id"]
    plane.secret = b"another"
    seen = api.get(f"runs/{run_id}").json()["spec"]["environment_variables"]
    assert seen["PASSWORD"] == "(sealed with another key)"
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    run = runs.show(plane, run_id)
    assert run.status == "Failed"
    assert "sealed with another key" in run.message


class RescuingDriver(MemoryDriver):
    def rescue(self, launch: Launch) -> bool:
        return pytest.fail(f"rescued with {launch.argv}")


def test_a_lost_key_keeps_no_run_from_ending(tmp_path: Path) -> None:
    driver = RescuingDriver()
    plane = make_plane(tmp_path / "home", {"local": driver})
    fields = run_fields(add_snapshot(plane, {"train.py": b"1"}), **VARIABLES)
    run, _ = submit(plane, "w", fields, "owner")
    loop = Reconciler(plane, "local", driver)
    loop.tick()
    with plane.database.read() as connection:
        attempt = attempts.of_run(connection, run.id)[0]
    plane.secret = b"another"
    loop._watching._settle(attempt, Observation(Phase.EXITED, ExitRecord(exit_code=0)))
    assert runs.show(plane, run.id).status == "Completed"
    plane.close()


def test_what_an_older_version_stored_is_sealed_on_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = resolve({"home": str(tmp_path / "home")}, {})
    plane = open_plane(settings)
    snapshot = add_snapshot(plane, {"train.py": b"1"}, "default")
    many = [run_fields(snapshot), run_fields(snapshot, **VARIABLES)]
    ids = [submit(plane, "default", fields, "owner")[0].id for fields in many]
    _store_clear(plane, ids[1])
    monkeypatch.setattr(resealing, "SEALED_SINCE", "9999")  # what there is counts as older
    assert SECRET in stored(plane)
    plane.close()
    plane = open_plane(settings)
    assert SECRET not in stored(plane)
    files = [path for path in (tmp_path / "home").glob("wherry.db*") if path.is_file()]
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == []
    kept = runs.show(plane, ids[1]).spec or {}
    assert sealing.opened(plane.secret, ids[1], kept)["environment_variables"]["PASSWORD"] == SECRET
    with plane.database.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
    plane.close()


def _store_clear(plane: Plane, run_id: str) -> None:
    """As an older version did."""
    with plane.database.write() as connection:
        connection.execute(update(t.runs).where(t.runs.c.id == run_id), {"spec": spec(**VARIABLES)})


def test_a_pass_that_was_interrupted_is_begun_again(
    plane: Plane, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On either database, batch by batch."""
    monkeypatch.setattr(specs, "SIZE", 2)
    many = [run_fields(snapshot, **VARIABLES)] * 7
    ids = [run_id for run_id, _ in submit_many(plane, "w", many, "owner")]
    for run_id in ids[2:]:
        _store_clear(plane, run_id)
    monkeypatch.setattr(resealing, "SEALED_SINCE", "9999")
    before = stored(plane)
    resealing.seal_all(plane.database, plane.secret)
    assert SECRET not in stored(plane)
    kept = {line for line in before.splitlines() if SECRET not in line}
    assert kept <= set(stored(plane).splitlines())
    for run_id in ids:
        found = sealing.opened(plane.secret, run_id, runs.show(plane, run_id).spec or {})
        assert found["environment_variables"]["PASSWORD"] == SECRET
    migrate(plane.database)


LOGIN = f"--index-url https://me:{SECRET}@host/simple"


def with_login(**fields: Any) -> dict[str, Any]:
    packages = {"conda": {"dependencies": ["python=3.11", {"pip": [LOGIN, "six"]}]}}
    return {"python": {**packages, "user_managed": False}, **fields}


def kept(database: Database, table: str) -> dict[int, str]:
    query = text(f"SELECT seq, CAST(spec AS TEXT) FROM {table} ORDER BY seq")
    with database.read() as connection:
        return {seq: found for seq, found in connection.execute(query)}


def _store_login(plane: Plane, table: Any, seq: int) -> None:
    """As a version did that sealed variables and passwords, but no login of an address."""
    with plane.database.write() as connection:
        row = connection.execute(table.select().where(table.c.seq == seq)).one()
        found = json.loads(json.dumps(row.spec))
        place = found["environment"]["specification"] if "environment" in found else found
        if table is t.runs:
            values = sealing.unseal(plane.secret, row.id, found.pop("sealed"))[:2]
            found["sealed"] = sealing.seal(plane.secret, row.id, values)
            if values == [{}, {}]:
                del found["sealed"]
        else:
            owner = f"environment {row.workspace_id} {row.name} {row.version}"
            values = sealing.unseal(plane.secret, owner, found.pop("sealed"))[:2]
            if values != [{}, None]:
                found["sealed"] = sealing.seal(plane.secret, owner, values)
        place["python"] = with_login()["python"]
        connection.execute(update(table).where(table.c.seq == seq), {"spec": found})


def test_logins_that_an_older_version_stored_are_sealed(
    plane: Plane, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On either database; what was sealed with them opens as before."""
    registry = {"address": "r.io", "username": "me", "password": "p"}
    docker = {"enabled": True, "image": "r.io/a", "registry": registry}
    for more in ({}, {"variables": {"A": "1"}}, {"docker": docker}):
        body = {"name": "train", "specification": with_login(**more)}
        environments.register(plane, "w", body, "me")
    body = {"name": "train", "specification": {"variables": {"B": "2"}}}
    environments.register(plane, "w", body, "me")
    wanted = {"specification": with_login()}
    for more in ({}, {"environment_variables": {"A": "1"}}):
        submit(plane, "w", run_fields(snapshot, environment=wanted, **more), "me")
    submit(plane, "w", run_fields(snapshot), "me")
    registered = environments.versions(plane, "w", "train")
    submitted = {
        seq: sealing.opened(plane.secret, run_id, spec) for seq, run_id, spec in _runs(plane)
    }
    for table, count in ((t.environments, 3), (t.runs, 2)):
        for seq in list(kept(plane.database, table.name))[:count]:
            _store_login(plane, table, seq)
        found = kept(plane.database, table.name).values()
        assert [SECRET in each for each in found] == [True] * count + [False]
    untouched = [
        list(kept(plane.database, table).values())[-1] for table in ("environments", "runs")
    ]
    monkeypatch.setattr(resealing, "SEALED_SINCE", "9999")  # what there is counts as older
    resealing.seal_all(plane.database, plane.secret)
    for name in ("environments", "runs"):
        assert SECRET not in str(kept(plane.database, name))
    assert untouched == [
        list(kept(plane.database, table).values())[-1] for table in ("environments", "runs")
    ]
    assert environments.versions(plane, "w", "train") == registered
    assert submitted == {
        seq: sealing.opened(plane.secret, run_id, spec) for seq, run_id, spec in _runs(plane)
    }


def test_logins_beside_what_another_key_has_sealed_stay(
    plane: Plane, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts the key back finds all of it; until then the server starts."""
    body = {"name": "train", "specification": with_login(variables={"A": "1"})}
    environments.register(plane, "w", body, "me")
    wanted = {"environment": {"specification": with_login()}, "environment_variables": {"A": "1"}}
    fields = run_fields(snapshot, **wanted)
    submit(plane, "w", fields, "me")
    for table in (t.environments, t.runs):
        _store_login(plane, table, *kept(plane.database, table.name))
    before = [kept(plane.database, table) for table in ("environments", "runs")]
    monkeypatch.setattr(resealing, "SEALED_SINCE", "9999")  # what there is counts as older
    resealing.seal_all(plane.database, b"another")
    assert before == [kept(plane.database, table) for table in ("environments", "runs")]


def _runs(plane: Plane) -> list[Any]:
    with plane.database.read() as connection:
        return list(
            connection.execute(
                t.runs.select().with_only_columns(t.runs.c.seq, t.runs.c.id, t.runs.c.spec)
            )
        )
