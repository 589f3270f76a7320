"""Requests on the short way are answered as they would be on the long one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, run_fields
from wherry.api import lane
from wherry.api.app import create_app
from wherry.control import attempt_tokens
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.store import attempts, run_records, runs

OWNER = f"Bearer {TOKEN}"
CHANGES = ("id", "number", "submitted_at", "root_id")


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    app = create_app(plane, reconcile=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def known(plane: Plane, api: TestClient) -> dict[str, str]:
    """What the requests below speak of."""
    snapshot = add_snapshot(plane, {"train.py": b""})
    reply = api.post(
        "/api/v1/workspaces/w/runs",
        json=run_fields(snapshot, tags={"b": "2", "a": "1"}, environment_variables={"X": "y"}),
        headers={"authorization": OWNER},
    )
    run_id = reply.json()["id"]
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    with plane.database.read() as connection:
        attempt_id = attempts.of_run(connection, run_id)[0].id
    token = attempt_tokens.make(plane, attempt_id, run_id)
    return {"snapshot": snapshot, "run": run_id, "attempt": attempt_id, "token": token}


def new(known: dict[str, str], **fields: Any) -> bytes:
    return json.dumps(run_fields(known["snapshot"], **fields)).encode()


def requests(known: dict[str, str]) -> list[tuple[str, str, bytes, str]]:
    """Method, address, body, and who asks."""
    submit, wait = "/workspaces/w/runs", f"/runs/{known['run']}/wait"
    report, own = f"/attempts/{known['attempt']}/report", f"Bearer {known['token']}"
    good = new(known)
    return [
        ("POST", submit, good, OWNER),
        ("POST", submit, new(known, submission_key="k", tags={"b": "2", "a": "1"}), OWNER),
        ("POST", submit, new(known, environment_variables={"X": "y"}), OWNER),
        ("POST", submit, new(known, script="other.py"), OWNER),
        ("POST", submit, new(known, target="nowhere"), OWNER),
        ("POST", submit, new(known, snapshot_id="0" * 64), OWNER),
        ("POST", submit, new(known, unknown=1), OWNER),
        ("POST", submit, new(known, parent_id="no such run"), OWNER),
        ("POST", submit, new(known, parent_id=known["run"]), own),
        ("POST", submit, good, own),
        ("POST", submit, b"{", OWNER),
        ("POST", submit, b"[]", OWNER),
        ("POST", submit, b"\xff", OWNER),
        ("POST", submit, good, ""),
        ("POST", submit, good, "Bearer wrong"),
        ("POST", "/workspaces/none/runs", good, OWNER),
        ("PUT", submit, good, OWNER),
        ("GET", f"{wait}?until=end&timeout_s=0", b"", OWNER),
        ("GET", f"{wait}?seen=Queued", b"", OWNER),
        ("GET", f"{wait}?timeout_s=0&unknown=1", b"", own),
        ("GET", f"{wait}?timeout_s=-1", b"", OWNER),
        ("GET", f"{wait}?timeout_s=nan", b"", OWNER),
        ("GET", f"{wait}?until=never&timeout_s=x", b"", OWNER),
        ("GET", f"{wait}?timeout_s=0", b"", "Bearer wa.a.b.c"),
        ("GET", "/runs/none/wait?timeout_s=0", b"", OWNER),
        ("GET", "/runs/none/wait?timeout_s=0", b"", own),
        ("GET", "/runs/a%2Fb/wait?timeout_s=0", b"", OWNER),
        ("GET", "/runs//wait", b"", OWNER),
        ("POST", report, b'{"stage": "running"}', own),
        ("POST", report, b'{"stage": "sleeping"}', own),
        ("POST", report, b'{"stage": "running"}', OWNER),
        ("POST", "/attempts/other/report", b"{}", own),
        ("POST", report, b'{"exit": {"exit_code": 0}, "log": {"offset": 0, "data": "aGk="}}', own),
        ("GET", f"{wait}?until=end", b"", OWNER),
    ]


def answers(api: TestClient, known: dict[str, str]) -> list[Any]:
    found = []
    for method, address, body, who in requests(known):
        headers = {"authorization": who} if who else {}
        reply = api.request(method, f"/api/v1{address}", content=body, headers=headers)
        fields = reply.json()
        for name in CHANGES:
            if isinstance(fields, dict):
                fields.pop(name, None)
        shown = {n: v for n, v in reply.headers.items() if n not in ("date", "content-length")}
        found.append((method, address.replace(known["run"], "R"), reply.status_code, shown, fields))
    return found


def test_both_ways_say_the_same(
    plane: Plane, api: TestClient, known: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(api, known)  # from now on the run has ended, and the key is known
    short = answers(api, known)
    with monkeypatch.context() as patched:
        patched.setattr(lane, "_ways", [])
        long = answers(api, known)
    for one, other in zip(short, long, strict=True):
        assert one == other
    assert {status for _, _, status, _, _ in short} >= {200, 201, 400, 401, 403, 404, 405}


def test_the_answer_to_a_submission_is_the_run_as_it_is_stored(
    plane: Plane, api: TestClient, known: dict[str, str]
) -> None:
    body = new(known, tags={"b": "2", "a": "1"}, properties={"p": "q"}, display_name="d")
    told = api.post("/api/v1/workspaces/w/runs", content=body, headers={"authorization": OWNER})
    with plane.database.read() as connection:
        row = runs.get(connection, told.json()["id"])
        stored = run_records.to_records(connection, [row], spec=True)[0].to_dict()
    assert told.json() == json.loads(json.dumps(stored))
