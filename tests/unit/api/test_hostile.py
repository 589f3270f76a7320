"""Requests that nobody sends by accident: each gets a sentence, and harms nothing."""

from __future__ import annotations

import base64
import errno
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import make_plane, run_fields
from tests.unit.api.test_api import problem, started, submit
from wherry.control import files
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver
from wherry.store.database import Database

NUL, HALF = "a\0b", "\ud800"
DEEP = '{"a":' * 400 + "1" + "}" * 400


@pytest.fixture
def plane(tmp_path: Path, database: Database) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()}, database)


@pytest.fixture
def api(api: TestClient) -> TestClient:
    api.headers["Content-Type"] = "application/json"
    return api


def interactive(api: TestClient, **fields: Any) -> str:
    reply = api.post("workspaces/w/runs/interactive", json={"experiment": "nb", **fields})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


@pytest.mark.parametrize("text", [NUL, HALF])
@pytest.mark.parametrize(
    "fields",
    [
        {"display_name": "{}"},
        {"tags": {"k": "{}"}},
        {"tags": {"{}": "v"}},
        {"arguments": ["{}"]},
        {"environment_variables": {"{}": "{}"}},
        {"script": "", "command": "{}"},
        {"snapshot_id": "{}"},
        {"submission_key": "{}"},
        {"parent_id": "{}"},
    ],
)
def test_text_that_cannot_be_kept_is_refused(
    api: TestClient, snapshot: str, fields: dict[str, Any], text: str
) -> None:
    body = json.dumps(run_fields(snapshot, **fields)).replace("{}", json.dumps(text)[1:-1])
    problem(api.post("workspaces/w/runs", content=body), 400)


@pytest.mark.parametrize(
    "address",
    [
        "runs/%00",
        "runs/a%00b/files",
        "workspaces/w/runs?tag=a%00",
        "workspaces/w/runs?experiment=%00",
        "workspaces/w/runs/resolve/%00",
    ],
)
def test_no_address_contains_a_nul(api: TestClient, address: str) -> None:
    problem(api.get(address), 400)


def test_filters_are_bounded_and_odd_ones_find_nothing(api: TestClient, snapshot: str) -> None:
    submit(api, snapshot, tags={"a%_'": "b'\";--"})
    assert len(api.get("workspaces/w/runs", params={"tag": "a%_'=b'\";--"}).json()["items"]) == 1
    for tag in ("a", "a%", "a%_'=b", "a%_'=" + "b" * 5000):
        assert api.get("workspaces/w/runs", params={"tag": tag}).json()["items"] == []
    many = {"tag": [f"k{n}=v" for n in range(800)]}
    problem(api.get("workspaces/w/runs", params=many), 400)
    again = {"status": ["Queued"] * 800}
    assert len(api.get("workspaces/w/runs", params=again).json()["items"]) == 1
    problem(api.get("workspaces/w/runs/resolve/" + "x" * 30_000), 404)


@pytest.mark.parametrize("order", ["-submitted_at", "number", "display_name", "-ended_at"])
@pytest.mark.parametrize(
    "rest",
    [
        '"x", 1',
        "1, Infinity",
        "1, 9e99",
        f"1, {10**30}",
        '"\\u0000", 1',
        '"\\ud800", 1',
        "true, 1",
        "[], 1",
        "null, null",
        "[" * 5000,
    ],
)
def test_a_tampered_cursor_is_refused(
    api: TestClient, snapshot: str, order: str, rest: str
) -> None:
    submit(api, snapshot)
    cursor = base64.urlsafe_b64encode(f'["{order}", {rest}]'.encode()).decode()
    reply = api.get("workspaces/w/runs", params={"order_by": order, "cursor": cursor})
    if (order, rest) != ("display_name", '"x", 1'):
        problem(reply, 400)


@pytest.mark.parametrize(
    "error",
    [
        '{"message": "\\ud800"}',
        '{"x": "\\ud800\\u0000"}',
        f'{{"x": {DEEP}}}',
        '{"x": NaN, "y": Infinity}',
        '{"exception": "E", "file": "train.py"}',
        f'{{"message": {10**30}}}',
    ],
)
def test_an_odd_error_ends_its_run_and_spoils_no_listing(
    api: TestClient, plane: Plane, snapshot: str, error: str
) -> None:
    mine = interactive(api)
    ended = api.post(f"runs/{mine}/end", content=f'{{"status": "Failed", "error": {error}}}')
    assert ended.json()["status"] == "Failed", ended.text
    run_id, attempt, token = started(api, plane, snapshot)
    body = f'{{"exit": {{"exit_code": 1, "started_at": 1e300, "error": {error}}}}}'
    report = api.post(f"attempts/{attempt}/report", content=body, headers=token)
    assert report.status_code == 200, report.text
    listed = {run["id"]: run["status"] for run in api.get("workspaces/w/runs").json()["items"]}
    assert listed == {mine: "Failed", run_id: "Failed"}


def test_odd_lines_of_a_spool_do_not_hold_up_the_others(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    run_id, _, token = started(api, plane, snapshot)
    odd: list[dict[str, Any]] = [{"s": 10**30}, {"r": 5}, {"r": {}}, {"r": NUL}, {"t": 1e300}]
    odd += [{"n": "一" * 1000}, {"k": "tag", "v": NUL}, {"v": [HALF, float("inf")]}]
    lines = [{"t": 1, "k": "scalar", "n": "m", "v": 1, **fields} for fields in [*odd, {}]]
    lines += [{"t": 1, "k": "scalar", "n": f"n{n}", "v": 1} for n in range(3000)]
    lines += [{"t": 1, "k": "tag", "n": f"t{n}", "v": 1} for n in range(3000)]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    reply = api.post(f"runs/{run_id}/spool/s?offset=0", content=data, headers=token)
    assert reply.json() == {"size": len(data)}, reply.text
    found = json.loads(api.get(f"runs/{run_id}/metrics").text)["metrics"]
    assert found["n2999"] == 1
    assert len(found["m"]) == 5
    assert api.get(f"runs/{run_id}").json()["tags"]["t2999"] == "1"


def test_ranges(api: TestClient) -> None:
    where = f"runs/{interactive(api)}/files/outputs/a"
    api.put(where, content=b"0123456789")
    for wanted in ("bytes=-0", "bytes=10-", "bytes=5-2"):
        reply = api.get(where, headers={"Range": wanted})
        problem(reply, 416)
        assert reply.headers["content-range"] == "bytes */10"
    for wanted in ("bytes=" + "9" * 5000 + "-", "bytes=0-1,3-4", "bytes=-", "lines=1-2"):
        assert api.get(where, headers={"Range": wanted}).content == b"0123456789"


@pytest.mark.parametrize(
    "body",
    [b"a " + b"9" * 5000 + b"\n", b"a 5\nx", b"a -1\nx", b"x" * 20_000, b"%00 1\nx", b"../x 1\ny"],
)
def test_odd_frames_store_nothing(api: TestClient, body: bytes) -> None:
    run_id = interactive(api)
    problem(api.post(f"runs/{run_id}/files/batch", content=body), 400)
    problem(api.post("blobs", content=body), 400)
    assert api.get(f"runs/{run_id}/files").json()["items"] == []


def test_names_of_files_are_bounded(api: TestClient) -> None:
    run_id = interactive(api)
    name = "/".join("n" * 250 for _ in range(5))
    assert (
        "1024 bytes" in problem(api.put(f"runs/{run_id}/files/{name}", content=b""), 400)["detail"]
    )
    problem(api.put("runs/none/files/a", content=b"x"), 404)


def test_a_log_is_not_begun_for_a_run_that_is_gone(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    run_id, attempt, token = started(api, plane, snapshot)
    api.post(f"attempts/{attempt}/report", json={"exit": {"exit_code": 0}}, headers=token)
    assert api.delete(f"runs/{run_id}").status_code == 204
    where = f"runs/{run_id}/logs/user_logs/std_log.txt?attempt={attempt}"
    problem(api.put(f"{where}&offset=0", content=b"x", headers=token), 404)
    problem(api.put(f"{where}&offset={10**30}", content=b"x", headers=token), 400)


def test_a_runs_token_learns_nothing_of_others(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    run_id, _, token = started(api, plane, snapshot)
    submit(api, snapshot, submission_key="theirs")
    mine = run_fields(snapshot, parent_id=run_id)
    stolen = {**mine, "submission_key": "theirs"}
    problem(api.post("workspaces/w/runs", json=stolen, headers=token), 403)
    first = api.post("workspaces/w/runs", json={**mine, "submission_key": "k"}, headers=token)
    again = api.post("workspaces/w/runs", json={**mine, "submission_key": "k"}, headers=token)
    assert (first.status_code, again.status_code) == (201, 200)
    api.post("workspaces", json={"name": "other"})
    problem(api.get("workspaces/other", headers=token), 403)
    problem(api.get("workspaces/other/experiments/e", headers=token), 403)
    problem(api.post("workspaces/other/snapshots", json={"files": []}, headers=token), 403)
    assert api.get("workspaces/w", headers=token).status_code == 200
    child = {"experiment": "e", "parent_id": run_id}
    problem(api.post("workspaces/other/runs/interactive", json=child, headers=token), 403)


def test_a_full_disk_is_told(
    api: TestClient, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = interactive(api)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(plane.blobs, "put_many", full)
    reply = api.put(f"runs/{run_id}/files/outputs/a", content=b"x")
    assert "disk is full" in problem(reply, 503)["detail"]


def at_once(count: int, work: Any) -> list[Any]:
    results: list[Any] = []
    gate = threading.Barrier(count)

    def run(n: int) -> None:
        gate.wait()
        results.append(work(n))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def codes(replies: Iterable[Any]) -> set[int]:
    return {reply.status_code for reply in replies}


def test_the_same_thing_at_once_happens_once(api: TestClient, plane: Plane, snapshot: str) -> None:
    body = run_fields(snapshot, experiment="new", submission_key="k")
    replies = at_once(
        8, lambda n: api.post("workspaces/w/runs", json={**body, "arguments": [str(n)]})
    )
    assert codes(replies) <= {200, 201}, [reply.text for reply in replies]
    assert len({reply.json()["id"] for reply in replies}) == 1
    assert codes(
        at_once(6, lambda n: api.post("workspaces", json={"name": "x", "exist_ok": True}))
    ) == {201}
    run_id = interactive(api)
    line = json.dumps({"t": 1, "k": "scalar", "n": "m", "v": 1}) + "\n"
    spool = f"runs/{run_id}/spool/s?offset=0"
    assert codes(at_once(6, lambda n: api.post(spool, content=line))) == {200}
    assert json.loads(api.get(f"runs/{run_id}/metrics").text)["metrics"] == {"m": 1}
    where = f"runs/{run_id}/files/outputs/a"
    assert codes(at_once(6, lambda n: api.put(where, content=b"%d" % n))) == {200}
    tags = at_once(6, lambda n: api.patch(f"runs/{run_id}", json={"tags": {"t": str(n)}}))
    assert codes(tags) == {200}
    assert len(files.every(plane, run_id)) == 1
    ends = at_once(
        6,
        lambda n: api.post(
            f"runs/{run_id}/" + ("cancel" if n % 2 else "end"),
            json=None if n % 2 else {"status": "Completed"},
        ),
    )
    assert codes(ends) == {200}
    told = [event["to"] for event in api.get(f"runs/{run_id}/events").json()["items"]]
    assert told in (["Running", "Completed"], ["Running", "Canceled"])


@pytest.mark.parametrize("data", ["?", "aGk", 7, None, "aGk=\n", "ä"])
def test_a_log_piece_that_is_no_base_64_is_refused(
    api: TestClient, plane: Plane, snapshot: str, data: Any
) -> None:
    run_id, attempt_id, token = started(api, plane, snapshot)
    body = {"exit": {"exit_code": 0}, "log": {"offset": 0, "data": data}}
    problem(api.post(f"attempts/{attempt_id}/report", json=body, headers=token), 400)
    assert api.get(f"runs/{run_id}").json()["status"] == "Starting"


def test_the_end_of_the_log_comes_with_the_exit(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    run_id, attempt_id, token = started(api, plane, snapshot)
    where, odd = f"runs/{run_id}/logs/user_logs/std_log.txt", bytes(range(256))

    def report(offset: int, data: bytes) -> Any:
        log = {"offset": offset, "data": base64.b64encode(data).decode()}
        body = {"exit": {"exit_code": 0}, "log": log}
        return api.post(f"attempts/{attempt_id}/report", json=body, headers=token)

    problem(report(5, b"a gap"), 409)
    assert api.get(f"runs/{run_id}").json()["status"] == "Starting"
    assert report(0, odd).status_code == 200
    assert report(0, odd).status_code == 200  # sent again: its answer was lost
    assert api.get(where).content == odd
    waited = api.get(f"runs/{run_id}/wait").json()
    assert waited["log_names"] == ["user_logs/std_log.txt"]
    assert api.get(f"runs/{run_id}").json()["status"] == "Completed"
