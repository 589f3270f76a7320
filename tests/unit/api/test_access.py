"""Who may call what: the whole list of endpoints, tried by every kind of caller there is."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, make_plane, run_fields
from wherry.api.access import ENDPOINTS, Who
from wherry.api.app import create_app
from wherry.api.guard import GuardedRoute, guarded_router
from wherry.control import attempt_tokens, instance_tokens, workspaces
from wherry.control.plane import Plane, open_plane
from wherry.control.reconciler import Reconciler
from wherry.control.submit import submit
from wherry.core.errors import AuthenticationException
from wherry.core.ids import new_uuid
from wherry.core.resources import Resources
from wherry.core.settings import resolve
from wherry.core.targets import key
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.store import attempts, computes
from wherry.store import tables as t
from wherry.store import workspaces as store_workspaces

LONG_AGO = timedelta(minutes=6)
JUST_NOW = timedelta(minutes=1)

# What must be let through; every other kind of caller must be refused.
OWN = {"the owner", "the run", "an attempt of it that has just ended"}
INSTANCE = "a compute instance of the workspace"
OF_THE_WORKSPACE = OWN | {"its parent", "its child", "its sibling", INSTANCE}
ALLOWED = {
    Who.TOKEN: OF_THE_WORKSPACE
    | {"a run of another workspace", "a compute instance of another workspace"},
    Who.OWNER: {"the owner"},
    Who.INSTANCE: {"the owner", INSTANCE},
    Who.VISITOR: {"the owner", INSTANCE},
    Who.WORKSPACE: OF_THE_WORKSPACE,
    Who.PARENT: OF_THE_WORKSPACE,
    Who.SNAPSHOT: OWN | {INSTANCE},
    Who.RUN: OWN | {"its parent", INSTANCE},
    Who.ATTEMPT: {"the run"},
}


class World:
    """A run with its relatives, and everybody who may speak to the server."""

    def __init__(self, folder: Path) -> None:
        self.plane = make_plane(
            folder, {"local": MemoryDriver(MemoryBackend(resources=Resources(16, 0, 0)))}
        )
        workspaces.create(self.plane, "other", exist_ok=False, description="", tags={})
        shared = add_snapshot(self.plane, {"train.py": b"0"})
        elsewhere = add_snapshot(self.plane, {"train.py": b"0"}, "other")
        self.elsewhere = add_snapshot(self.plane, {"train.py": b"2"}, "other")
        self.snapshot = add_snapshot(self.plane, {"train.py": b"1"})
        self.parent = self._submit(shared)
        self.run = self._submit(self.snapshot, parent_id=self.parent)
        self.child = self._submit(shared, parent_id=self.run)
        self.sibling = self._submit(shared, parent_id=self.parent)
        self.stranger = self._submit(elsewhere, workspace="other")
        Reconciler(self.plane, "local", self.plane.drivers["local"]).tick()
        self.attempt = self._attempt(self.run)
        self.just_ended = self._ended(JUST_NOW)
        self.long_ended = self._ended(LONG_AGO)
        self.instance = self._instance("w", "notebook")
        self.instance_elsewhere = self._instance("other", "notebook")
        self.instance_going = self._instance("w", "going", deleting_at=self.plane.now())
        self.instance_gone = SimpleNamespace(id=new_uuid())
        self.plane.attentive_since -= timedelta(hours=1)
        self.plane.last_pass = None  # however long the tests take, nobody was suspended

    def token(self, run_id: str, attempt_id: str | None = None) -> str:
        return attempt_tokens.make(self.plane, attempt_id or self._attempt(run_id), run_id)

    def address(self, endpoint: str) -> tuple[str, str]:
        method, path = endpoint.replace("*", "GET").split()
        named = {
            "workspace": "w",
            "name": "e" if "experiments" in path else "user_logs/std_log.txt",
            "environment": "Wherry-minimal",
            "label": "latest",
            "version": "1",
            "compute": "cpu",
            "site": "lab",
            "run_id": self.run,
            "snapshot_id": self.snapshot,
            "other_id": self.snapshot,
            "attempt_id": self.attempt,
            "text": self.run,
            "node": "n",
            "path": "outputs/a",
            "digest": "0" * 64,
            "upload": "0" * 32,
            "stream": "s",
        }
        return method, f"{path.format(**named)}?offset=0&timeout_s=0&attempt={self.attempt}&name=m"

    def callers(self) -> dict[str, dict[str, Any]]:
        """The arguments that make a request theirs."""
        mine, theirs = self.token(self.run), self.token(self.sibling)
        other_key = SimpleNamespace(secret=b"another key")
        forged = attempt_tokens.make(other_key, self.attempt, self.run)  # type: ignore[arg-type]
        instance, elsewhere = map(self.instance_token, (self.instance, self.instance_elsewhere))
        basic = base64.b64encode(f"owner:{TOKEN}".encode()).decode()
        tokens = {
            "the owner": TOKEN,
            "the run": mine,
            "an attempt of it that has just ended": self.token(self.run, self.just_ended),
            "its parent": self.token(self.parent),
            "its child": self.token(self.child),
            "its sibling": theirs,
            "a run of another workspace": self.token(self.stranger),
            "an attempt that ended long ago": self.token(self.run, self.long_ended),
            "an attempt that never was": self.token(self.run, new_uuid()),
            INSTANCE: instance,
            "a compute instance of another workspace": elsewhere,
            "a compute instance that is being deleted": self.instance_token(self.instance_going),
            "a compute instance that is gone": self.instance_token(self.instance_gone),
            "an invented compute instance": "wi.a.b",
            "half of a compute instance's token": "wi.",
            "a seal of another compute instance": f"{instance[:39]}{elsewhere[39:]}",
            "a compute instance's seal of another key": instance_tokens.make(
                other_key,  # type: ignore[arg-type]
                self.instance,
            ),
            "a compute instance's name as that of an attempt": f"wa.{instance[3:]}",
            "a wrong token": "wrong",
            "a token without its end": TOKEN[:-1],
            "a token in capitals": TOKEN.upper(),
            "a token's hash": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "half of an attempt's token": "wa.",
            "an invented attempt": "wa.a.b.c",
            "a seal of another key": forged,
            "a seal of another run": f"{mine.rpartition('.')[0]}.{theirs.rpartition('.')[2]}",
            "an attempt's name without a seal": mine.rpartition(".")[0],
        }
        headers = {
            "an empty header": "",
            "a scheme without a token": "Bearer ",
            "a token without a scheme": TOKEN,
            "another scheme": f"Token {TOKEN}",
            "a password": f"Basic {basic}",
            "two schemes": f"Basic Bearer {TOKEN}",
        }
        return {
            "nobody": {},
            "a token in the address": {"params": {"token": TOKEN, "access_token": TOKEN}},
            "a token in a cookie": {"headers": {"Cookie": f"token={TOKEN}; Authorization={TOKEN}"}},
            **{name: _with(f"Bearer {token}") for name, token in tokens.items()},
            **{name: _with(value) for name, value in headers.items()},
        }

    def instance_token(self, row: Any) -> str:
        return instance_tokens.make(self.plane, row)

    def dump(self) -> list[str]:
        """All that is stored."""
        with sqlite3.connect(str(self.plane.database.engine.url.database)) as connection:
            return list(connection.iterdump())

    def _submit(self, snapshot: str, workspace: str = "w", **fields: Any) -> str:
        return submit(self.plane, workspace, run_fields(snapshot, **fields), "owner")[0].id

    def _instance(self, workspace: str, name: str, **fields: Any) -> Any:
        now = self.plane.now()
        with self.plane.write() as connection:
            row = {
                "id": new_uuid(),
                "workspace_id": store_workspaces.get(connection, workspace).id,
                "name": name,
                "target": key(workspace, name),
                "type": "VirtualMachine",  # whose records need least; a token asks for the id
                "kind": "machine",
                "config": {"address": "127.0.0.1"},
                "tags": {},
                "provisioning_state": "Succeeded",
                "provisioning_errors": [],
                "created_at": now,
                "modified_at": now,
            }
            computes.add(connection, {**row, **fields})
            return computes.find(connection, key(workspace, name))

    def _attempt(self, run_id: str) -> str:
        with self.plane.database.read() as connection:
            return str(attempts.of_run(connection, run_id)[0].id)

    def _ended(self, ago: timedelta) -> str:
        """A further attempt of the run, over since then."""
        attempt_id, now = new_uuid(), self.plane.now()
        with self.plane.write() as connection:
            number = len(attempts.of_run(connection, self.run)) + 1
            fields = {"id": attempt_id, "run_id": self.run, "number": number, "target": "local"}
            fields |= {"cpu": 1, "memory_bytes": 0, "gpus": [], "created_at": now - ago}
            connection.execute(t.attempts.insert(), {**fields, "ended_at": now - ago})
        return attempt_id


def _with(authorization: str) -> dict[str, Any]:
    return {"headers": {"Authorization": authorization}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[TestClient]:
    with TestClient(create_app(world.plane, reconcile=False), follow_redirects=False) as client:
        yield client


@pytest.fixture(autouse=True)
def _no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = SimpleNamespace(start=lambda: None)
    harmless = SimpleNamespace(Timer=lambda *_: timer, active_count=lambda: 1)
    monkeypatch.setattr("wherry.api.server.threading", harmless)


def ask(client: TestClient, world: World, endpoint: str, caller: dict[str, Any]) -> Any:
    method, address = world.address(endpoint)
    address, _, query = address.partition("?")
    wanted = dict(pair.split("=") for pair in query.split("&"))
    return client.request(
        method,
        address,
        params={**wanted, **caller.get("params", {})},
        headers=caller.get("headers"),
    )


def routes(found: Iterable[Any]) -> Iterator[Any]:
    for route in found:
        included = getattr(route, "original_router", None)
        yield from routes(included.routes) if included else [route]


def test_the_list_is_whole(client: TestClient) -> None:
    app: Any = client.app
    made = list(routes(app.routes))
    assert [route for route in made if not isinstance(route, GuardedRoute)] == []
    assert {f"{method} {each.path_format}" for each in made for method in each.methods} == {
        endpoint for endpoint in ENDPOINTS if not endpoint.startswith("*")
    }


def test_a_route_that_is_not_in_the_list_cannot_be_made() -> None:
    with pytest.raises(LookupError, match="GET /api/v1/nowhere"):
        guarded_router("x").get("/nowhere")(lambda: None)


def test_whoever_is_not_listed_is_refused_and_changes_nothing(
    client: TestClient, world: World
) -> None:
    callers, before = world.callers(), world.dump()
    asked = 0
    for endpoint, who in ENDPOINTS.items():
        if who is Who.ANYONE:
            continue
        for name in callers.keys() - ALLOWED[who]:
            if "/mlflow/" in endpoint and name == "a password":  # its clients may send the token so
                continue
            reply = ask(client, world, endpoint, callers[name])
            known = name in ALLOWED[Who.TOKEN]
            assert reply.status_code == (403 if known else 401), (endpoint, name, reply.text)
            form = "application/json" if "/mlflow/" in endpoint else "application/problem+json"
            assert reply.headers["content-type"] == form
            assert TOKEN not in reply.text
            asked += 1
    assert asked > 900
    assert world.dump() == before


def test_whoever_is_listed_is_let_through(client: TestClient, world: World) -> None:
    callers = world.callers()
    for endpoint, who in ENDPOINTS.items():
        for name in callers if who is Who.ANYONE else ALLOWED[who]:
            reply = ask(client, world, endpoint, callers[name])
            assert reply.status_code not in (401, 403), (endpoint, name, reply.text)
            assert reply.status_code < 500, (endpoint, name, reply.text)


def test_a_log_is_written_by_its_own_attempt_alone(client: TestClient, world: World) -> None:
    """Whatever other attempt or run the address names."""
    mine = _with(f"Bearer {world.token(world.run)}")["headers"]
    for run_id, attempt_id in ((world.child, world.attempt), (world.run, world.just_ended)):
        where = f"/api/v1/runs/{run_id}/logs/user_logs/std_log.txt?offset=0&attempt={attempt_id}"
        assert client.put(where, content=b"x", headers=mine).status_code == 403


def test_an_instance_reaches_nothing_of_another_workspace(client: TestClient, world: World) -> None:
    """Runs and snapshots are named without their workspace."""
    theirs = _with(f"Bearer {world.instance_token(world.instance_elsewhere)}")["headers"]
    mine = _with(f"Bearer {world.instance_token(world.instance)}")["headers"]
    for path, headers, status in (
        (f"runs/{world.stranger}", theirs, 200),
        (f"runs/{world.stranger}", mine, 403),
        (f"runs/{world.run}", theirs, 403),
        (f"snapshots/{world.snapshot}", mine, 200),
        (f"snapshots/{world.snapshot}", theirs, 403),
        (f"snapshots/{world.snapshot}/diff/{world.elsewhere}", mine, 403),
    ):
        assert client.get(f"/api/v1/{path}", headers=headers).status_code == status, path


def test_a_run_makes_runs_below_itself_alone(client: TestClient, world: World) -> None:
    mine = _with(f"Bearer {world.token(world.run)}")["headers"]
    for parent, status in (
        (None, 403),
        (world.sibling, 403),
        (world.parent, 403),
        (world.child, 201),
    ):
        body = {"experiment": "e", "parent_id": parent}
        reply = client.post("/api/v1/workspaces/w/runs/interactive", json=body, headers=mine)
        assert reply.status_code == status, reply.text


def test_a_token_that_was_replaced_is_worth_nothing(tmp_path: Path) -> None:
    settings = resolve({"home": str(tmp_path / "home"), "allowed_hosts": "testserver"}, {})
    path, seen = tmp_path / "home" / "token", []
    for _ in range(2):
        with TestClient(create_app(open_plane(settings), reconcile=False)) as client:
            seen.append(path.read_text())
            asked = [client.get("/api/v1/server", **_with(f"Bearer {token}")) for token in seen]
        path.unlink()
    assert [reply.status_code for reply in asked] == [401, 200]


@pytest.fixture
def fresh(tmp_path: Path) -> World:
    return World(tmp_path / "fresh")


def good(plane: Plane, world: World, attempt_id: str) -> bool:
    plane.good_attempts.clear()
    try:
        attempt_tokens.check(plane, attempt_id, world.run)
    except AuthenticationException:
        return False
    return attempt_tokens.known_good(plane, attempt_id)


def test_a_token_ends_five_minutes_after_its_attempt(fresh: World) -> None:
    plane, start = fresh.plane, fresh.plane.now()
    assert good(plane, fresh, fresh.attempt)
    assert good(plane, fresh, fresh.just_ended)
    assert attempt_tokens.known_good(plane, fresh.just_ended)
    plane.now = lambda: start + timedelta(minutes=4.5)
    plane.last_pass = plane.now()
    assert not attempt_tokens.known_good(plane, fresh.just_ended)
    assert not good(plane, fresh, fresh.just_ended)
    assert good(plane, fresh, fresh.attempt)


def test_the_time_in_which_nobody_was_heard_does_not_count(fresh: World) -> None:
    """The server was down, or suspended: what it missed may still be sent."""
    plane = fresh.plane
    assert not good(plane, fresh, fresh.long_ended)
    plane.last_pass = plane.now() - timedelta(minutes=10)
    assert good(plane, fresh, fresh.long_ended)
    plane.last_pass = plane.now()
    assert not good(plane, fresh, fresh.long_ended)
    plane.attentive_since = plane.now()
    assert good(plane, fresh, fresh.long_ended)


def test_a_clock_that_is_set_back_prolongs_no_token(fresh: World) -> None:
    plane, start = fresh.plane, fresh.plane.now()
    plane.now = lambda: start - timedelta(days=1)
    plane.attentive_since = plane.last_pass = plane.now()  # as the reconciler notices
    assert good(plane, fresh, fresh.just_ended)
    plane.now = lambda: start - timedelta(days=1) + LONG_AGO
    plane.last_pass = plane.now()
    assert not good(plane, fresh, fresh.just_ended)
    assert good(plane, fresh, fresh.attempt)


def test_an_attempt_that_was_just_launched_is_known_without_a_look(fresh: World) -> None:
    assert attempt_tokens.known_good(fresh.plane, fresh.attempt)
    assert not attempt_tokens.known_good(fresh.plane, fresh.just_ended)
