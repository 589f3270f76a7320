"""The REST interface: shapes, rights, limits, and errors that are sentences."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, run_fields
from wherry.api.app import create_app
from wherry.control import attempt_tokens
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.runner.shipping import LOG_CHUNK

STD_LOG = "user_logs/std_log.txt"


def submit(api: TestClient, snapshot: str, **fields: Any) -> dict[str, Any]:
    reply = api.post("workspaces/w/runs", json=run_fields(snapshot, **fields))
    assert reply.status_code == 201, reply.text
    return dict(reply.json())


def started(api: TestClient, plane: Plane, snapshot: str) -> tuple[str, str, dict[str, str]]:
    """A run that has an attempt: its id, the attempt's id, and headers with the attempt's token."""
    run = submit(api, snapshot)
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    from wherry.store import attempts

    with plane.database.read() as connection:
        attempt_id = attempts.of_run(connection, run["id"])[0].id
    token = attempt_tokens.make(plane, attempt_id, run["id"])
    return run["id"], attempt_id, {"Authorization": f"Bearer {token}"}


def problem(reply: Any, status: int) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = reply.json()
    assert body["detail"]
    assert "Traceback" not in reply.text
    return body


def test_health_needs_no_token_and_the_rest_does(api: TestClient) -> None:
    del api.headers["Authorization"]
    assert api.get("health").json()["status"] == "ok"
    skipped = 0
    for route in _routes(api):
        if route in ("/api/v1/health", "/health"):
            skipped += 1
            continue
        for method in _methods(api, route):
            path = route.replace("{", "").replace("}", "")
            problem(api.request(method, f"http://testserver{path}"), 401)
            headers = {"Authorization": "Bearer wrong"}
            problem(api.request(method, f"http://testserver{path}", headers=headers), 401)
            headers = {"Authorization": "Bearer wa.a.b.c"}
            problem(api.request(method, f"http://testserver{path}", headers=headers), 401)
    assert skipped == 2


def _routes(api: TestClient) -> list[str]:
    app: Any = api.app
    return list(app.openapi()["paths"])


def _methods(api: TestClient, route: str) -> list[str]:
    app: Any = api.app
    return list(app.openapi()["paths"][route])


def test_workspaces(api: TestClient) -> None:
    made = api.post("workspaces", json={"name": "lab", "tags": {"a": "b"}})
    assert made.status_code == 201
    assert made.json()["name"] == "lab"
    problem(api.post("workspaces", json={"name": "lab"}), 409)
    again = api.post("workspaces", json={"name": "lab", "exist_ok": True})
    assert again.json()["id"] == made.json()["id"]
    problem(api.post("workspaces", json={"name": "../x"}), 400)
    problem(api.get("workspaces/none"), 404)
    assert [each["name"] for each in api.get("workspaces").json()["items"]] == ["w", "lab"]
    assert api.delete("workspaces/lab").status_code == 204
    problem(api.get("workspaces/lab"), 404)


def test_a_workspace_with_a_live_run_is_not_deleted(api: TestClient, snapshot: str) -> None:
    run = submit(api, snapshot)
    assert run["id"] in problem(api.delete("workspaces/w"), 409)["detail"]


def test_experiments(api: TestClient, snapshot: str) -> None:
    submit(api, snapshot, experiment="used")
    api.post("workspaces/w/experiments", json={"name": "empty"})
    problem(api.delete("workspaces/w/experiments/used"), 409)
    changed = api.patch(
        "workspaces/w/experiments/empty", json={"archived": True, "tags": {"x": "1"}}
    )
    assert changed.json()["archived_at"]
    assert changed.json()["tags"] == {"x": "1"}
    names = [each["name"] for each in api.get("workspaces/w/experiments").json()["items"]]
    assert names == ["used"]
    assert api.delete("workspaces/w/experiments/empty").status_code == 204


def test_submission(api: TestClient, snapshot: str) -> None:
    run = submit(api, snapshot, tags={"t": "1"}, arguments=["--x", "1"])
    assert run["status"] == "Queued"
    assert run["type"] == "azureml.scriptrun"
    assert run["properties"]["ContentSnapshotId"] == snapshot
    shown = api.get(f"runs/{run['id']}").json()
    assert shown["spec"]["arguments"] == ["--x", "1"]
    assert shown["message"].startswith("waiting for 1 CPU on target 'local'")


def test_the_same_key_makes_one_run(api: TestClient, snapshot: str) -> None:
    first = submit(api, snapshot, submission_key="k")
    again = api.post("workspaces/w/runs", json=run_fields(snapshot, submission_key="k"))
    assert again.status_code == 200
    assert again.json()["id"] == first["id"]
    assert len(api.get("workspaces/w/runs").json()["items"]) == 1


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"script": "none.py"}, 400, "'none.py' is not in the snapshot"),
        ({"snapshot_id": "0" * 64}, 404, "no snapshot"),
        ({"target": "moon"}, 400, "no compute target 'moon'"),
        ({"script": ""}, 400, "either a script or a command"),
        ({"resources": {"cpu": 100000}}, 400, "CPU"),
        ({"arguments": "text"}, 400, "arguments"),
        ({"colour": "red"}, 400, "colour"),
        ({"experiment": "a/b"}, 400, "experiment name"),
        ({"parent_id": "none"}, 404, "no run 'none'"),
    ],
)
def test_refused_submissions_change_nothing(
    api: TestClient, snapshot: str, fields: dict[str, Any], status: int, words: str
) -> None:
    reply = api.post("workspaces/w/runs", json=run_fields(snapshot, **fields))
    body = problem(reply, status)
    assert words in body["detail"]
    assert api.get("workspaces/w/runs").json()["items"] == []


def test_listing_filters_and_pages(api: TestClient, snapshot: str) -> None:
    ids = [submit(api, snapshot, tags={"n": str(n)})["id"] for n in range(5)]
    first = api.get("workspaces/w/runs", params={"limit": 2}).json()
    assert [run["id"] for run in first["items"]] == ids[:-3:-1]
    params = {"limit": 10, "cursor": first["next_cursor"]}
    rest = api.get("workspaces/w/runs", params=params).json()
    assert [run["id"] for run in rest["items"]] == ids[2::-1]
    assert rest["next_cursor"] is None
    tagged = api.get("workspaces/w/runs", params={"tag": "n=3"}).json()["items"]
    assert [run["id"] for run in tagged] == [ids[3]]
    problem(api.get("workspaces/w/runs", params={"limit": 0}), 400)
    problem(api.get("workspaces/w/runs", params={"cursor": "x"}), 400)


def test_short_names_and_ambiguity(api: TestClient, snapshot: str) -> None:
    one, two = submit(api, snapshot)["id"], submit(api, snapshot)["id"]
    assert api.get(f"workspaces/w/runs/resolve/{one[-8:]}").json()["id"] == one
    body = problem(api.get("workspaces/w/runs/resolve/e_"), 409)
    assert sorted(body["fields"]["candidates"]) == sorted([one, two])
    problem(api.get("workspaces/w/runs/resolve/zzz"), 404)


def test_labels_archive_and_delete(api: TestClient, snapshot: str) -> None:
    run_id = submit(api, snapshot)["id"]
    changes = {"tags": {"a": "1"}, "properties": {"p": "1"}, "display_name": "best"}
    changed = api.patch(f"runs/{run_id}", json=changes).json()
    assert (changed["tags"], changed["display_name"]) == ({"a": "1"}, "best")
    problem(api.patch(f"runs/{run_id}", json={"properties": {"p": "2"}}), 409)
    api.patch(f"runs/{run_id}", json={"archived": True})
    assert api.get("workspaces/w/runs").json()["items"] == []
    problem(api.delete(f"runs/{run_id}"), 409)


def test_cancel_of_a_queued_run(api: TestClient, snapshot: str) -> None:
    run_id = submit(api, snapshot)["id"]
    run = api.post(f"runs/{run_id}/cancel").json()
    assert (run["status"], run["reason"]) == ("Canceled", "Canceled")
    told = [event["to"] for event in api.get(f"runs/{run_id}/events").json()["items"]]
    assert told == ["Queued", "Canceled"]
    assert api.delete(f"runs/{run_id}").status_code == 204
    problem(api.get(f"runs/{run_id}"), 404)


def test_waiting_answers_at_once_for_another_status(api: TestClient, snapshot: str) -> None:
    run_id = submit(api, snapshot)["id"]
    reply = api.get(f"runs/{run_id}/wait", params={"seen": "Running", "timeout_s": 60})
    assert reply.json()["status"] == "Queued"
    reply = api.get(f"runs/{run_id}/wait", params={"seen": "Queued", "timeout_s": 0})
    assert reply.json()["status"] == "Queued"


def test_an_attempts_life(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id, attempt, token = started(api, plane, snapshot)

    def report(**fields: Any) -> Any:
        return api.post(f"attempts/{attempt}/report", json=fields, headers=token)

    assert report(stage="running").json() == {"cancel": False}
    assert api.get(f"runs/{run_id}").json()["status"] == "Running"
    where = f"runs/{run_id}/logs/{STD_LOG}"
    params: dict[str, Any] = {"attempt": attempt, "offset": 0}
    assert api.put(where, params=params, content=b"hello ", headers=token).json() == {"size": 6}
    params["offset"] = 3
    assert api.put(where, params=params, content=b"lo you", headers=token).json() == {"size": 9}
    params["offset"] = 50
    gap = problem(api.put(where, params=params, content=b"x", headers=token), 409)
    assert gap["fields"]["size"] == 9
    assert api.get(where).content == b"hello you"
    assert api.get(where, params={"offset": 6}).content == b"you"
    api.post(f"runs/{run_id}/cancel")
    assert report(stage="running").json() == {"cancel": True}
    exit = {"exit_code": 3, "error": {"exception": "ValueError: no", "file": "train.py", "line": 7}}
    report(stage="finalizing")
    report(exit=exit)
    run = api.get(f"runs/{run_id}").json()
    assert run["status"] == "Failed"
    assert run["message"] == "exited with code 3: ValueError: no (train.py, line 7)"
    assert run["error"]["exit_code"] == 3
    assert api.get(where, params={"follow": True}).content == b"hello you"
    report(exit={"exit_code": 0})
    assert api.get(f"runs/{run_id}").json()["status"] == "Failed"


def test_metrics_arrive_once(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id, _, token = started(api, plane, snapshot)
    lines = [
        {"t": 1.0, "k": "scalar", "n": "loss", "v": 0.5, "s": 0},
        {"t": 2.0, "k": "scalar", "n": "loss", "v": float("nan"), "s": 1},
        {"t": 2.0, "k": "tag", "n": "best", "v": "yes"},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    for _ in range(2):
        reply = api.post(
            f"runs/{run_id}/spool/metrics.1", params={"offset": 0}, content=data, headers=token
        )
        assert reply.json() == {"size": len(data)}
    metrics = json.loads(api.get(f"runs/{run_id}/metrics").text)["metrics"]
    assert metrics["loss"][0] == 0.5
    assert len(metrics["loss"]) == 2
    assert api.get(f"runs/{run_id}").json()["tags"] == {"best": "yes"}
    assert api.get(f"runs/{run_id}/spool").json() == {"streams": {"metrics.1": len(data)}}
    history = api.get(f"runs/{run_id}/metrics/history", params={"name": "loss"}).text
    assert json.loads(history)["steps"] == [0, 1]
    half = api.post(f"runs/{run_id}/spool/x", params={"offset": 0}, content=b"{", headers=token)
    problem(half, 400)


def test_files(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id, _, token = started(api, plane, snapshot)
    stored = api.put(f"runs/{run_id}/files/outputs/a b.txt", content=b"0123456789", headers=token)
    assert stored.json()["size"] == 10
    batch = b"outputs/x 2\nhi" + b"outputs/%C3%A9 0\n"
    reply = api.post(f"runs/{run_id}/files/batch", content=batch, headers=token)
    assert reply.json() == {"stored": 2}
    listed = [each["path"] for each in api.get(f"runs/{run_id}/files").json()["items"]]
    assert listed == ["outputs/a b.txt", "outputs/x", "outputs/é", STD_LOG]
    where = f"runs/{run_id}/files/outputs/a b.txt"
    assert api.get(where).content == b"0123456789"
    part = api.get(where, headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    assert api.get(where, headers={"Range": "bytes=-3"}).content == b"789"
    assert api.get(where, headers={"Range": "bytes=20-"}).status_code == 416
    problem(api.get(f"runs/{run_id}/files/none"), 404)
    digest = stored.json()["digest"]
    assert api.get(where).headers["etag"] == f'"{digest}"'
    for tag, status in ((digest, 206), ("0" * 64, 200)):
        headers = {"Range": "bytes=2-4", "If-Range": f'"{tag}"'}
        assert api.get(where, headers=headers).status_code == status
    names = {"paths": ["outputs/é", "outputs/x"]}
    both = api.post(f"runs/{run_id}/files/read", json=names, headers=token)
    assert both.content == b"outputs/%C3%A9 0\noutputs/x 2\nhi"
    problem(api.post(f"runs/{run_id}/files/read", json={"paths": ["outputs/x", "none"]}), 404)


def test_an_upload_in_two_goes(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id, _, token = started(api, plane, snapshot)
    where, upload = f"runs/{run_id}/files/outputs/a", "0123456789abcdef"
    gap = api.put(where, params={"upload": upload, "offset": 3}, content=b"x", headers=token)
    assert problem(gap, 409)["fields"] == {"size": 0}
    problem(api.put(where, params={"offset": 3}, content=b"x", headers=token), 400)
    problem(api.put(where, params={"upload": "../x"}, content=b"x", headers=token), 400)
    stored = api.put(where, params={"upload": upload, "offset": 0}, content=b"abc", headers=token)
    assert stored.json()["size"] == 3
    assert api.get(f"runs/{run_id}/uploads/{upload}", headers=token).json() == {"size": 3}
    again = api.put(where, params={"upload": upload, "offset": 3}, content=b"", headers=token)
    assert again.json()["digest"] == stored.json()["digest"]
    assert api.get(f"runs/{run_id}/uploads/{'f' * 32}", headers=token).json() == {"size": 0}


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e/x",
        "a/%2e%2e/%2e%2e/x",
        "%2Fetc/passwd",
        "a%00b",
        "a//b",
        "C:%5Cx",
        "a/" + "b" * 300,
    ],
)
def test_no_file_name_leaves_its_root(
    api: TestClient, plane: Plane, snapshot: str, path: str
) -> None:
    run_id, _, token = started(api, plane, snapshot)
    reply = api.put(f"runs/{run_id}/files/{path}", content=b"x", headers=token)
    assert reply.status_code in (400, 404, 405), reply.text
    names = [each["path"] for each in api.get(f"runs/{run_id}/files").json()["items"]]
    assert names == [STD_LOG]


def test_a_runs_token_reaches_only_its_own_run(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    run_id, attempt, token = started(api, plane, snapshot)
    other_snapshot = add_snapshot(plane, {"train.py": b"other"})
    other = submit(api, other_snapshot)["id"]
    forbidden = [
        ("GET", f"runs/{other}"),
        ("PATCH", f"runs/{other}"),
        ("POST", f"runs/{other}/cancel"),
        ("GET", f"runs/{other}/metrics"),
        ("PUT", f"runs/{other}/files/outputs/x"),
        ("POST", f"runs/{other}/spool/m?offset=0"),
        ("PUT", f"runs/{run_id}/logs/{STD_LOG}?attempt=another&offset=0"),
        ("GET", f"snapshots/{other_snapshot}/archive"),
        ("GET", "workspaces"),
        ("GET", "workspaces/w/runs"),
        ("DELETE", f"runs/{run_id}"),
        ("DELETE", "workspaces/w"),
        ("POST", "server/stop"),
        ("GET", "server"),
        ("POST", "attempts/another/report"),
    ]
    for method, path in forbidden:
        body: dict[str, Any] | None = {} if method == "PATCH" or path.endswith("report") else None
        problem(api.request(method, path, headers=token, json=body), 403)
    assert api.get(f"runs/{run_id}", headers=token).status_code == 200
    assert api.get(f"snapshots/{snapshot}/archive", headers=token).status_code == 200
    child = {"experiment": "e", "parent_id": run_id}
    made = api.post("workspaces/w/runs/interactive", json=child, headers=token)
    assert made.status_code == 201
    assert api.get(f"runs/{made.json()['id']}", headers=token).status_code == 200
    problem(api.post("workspaces/w/runs/interactive", json={"experiment": "e"}, headers=token), 403)
    assert attempt


def test_children_end_with_their_parent(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id, attempt, token = started(api, plane, snapshot)
    body = {"experiment": "e", "parent_id": run_id}
    child = api.post("workspaces/w/runs/interactive", json=body, headers=token).json()["id"]
    line = json.dumps({"t": 1, "k": "scalar", "n": "m", "v": 1, "r": child}) + "\n"
    api.post(f"runs/{run_id}/spool/m", params={"offset": 0}, content=line, headers=token)
    below = json.loads(api.get(f"runs/{run_id}/metrics", params={"recursive": True}).text)
    assert below["runs"][child] == {"m": 1}
    api.post(f"attempts/{attempt}/report", json={"exit": {"exit_code": 0}}, headers=token)
    assert api.get(f"runs/{child}").json()["status"] == "Completed"
    listed = api.get(f"runs/{run_id}/children").json()["items"]
    assert [each["id"] for each in listed] == [child]


def test_interactive_runs(api: TestClient) -> None:
    run = api.post("workspaces/w/runs/interactive", json={"experiment": "nb"}).json()
    assert (run["status"], run["type"]) == ("Running", None)
    assert api.post(f"runs/{run['id']}/heartbeat").status_code == 204
    end = {"status": "Failed", "error": {"message": "ValueError: x"}}
    ended = api.post(f"runs/{run['id']}/end", json=end).json()
    assert (ended["status"], ended["error"]["message"]) == ("Failed", "ValueError: x")
    again = api.post(f"runs/{run['id']}/end", json={"status": "Completed"}).json()
    assert again["status"] == "Failed"
    problem(api.post(f"runs/{run['id']}/end", json={"status": "Odd"}), 400)


def test_snapshots(api: TestClient, plane: Plane, snapshot: str) -> None:
    other = add_snapshot(plane, {"train.py": b"print(2)\n", "new.py": b""})
    shown = api.get(f"snapshots/{snapshot}").json()
    assert [each["path"] for each in shown["files"]] == ["lib/a.py", "train.py"]
    difference = api.get(f"snapshots/{snapshot}/diff/{other}").json()
    assert difference == {"added": ["new.py"], "removed": ["lib/a.py"], "changed": ["train.py"]}
    content = api.get(f"snapshots/{snapshot}/archive").content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert sorted(archive.getnames()) == ["lib/a.py", "train.py"]
        file = archive.extractfile("train.py")
        assert file is not None
        assert file.read() == b"print(1)\n"
    problem(api.get("snapshots/" + "0" * 64), 404)


def test_registering_a_snapshot_asks_for_what_is_missing(api: TestClient) -> None:
    import hashlib

    data = b"print(3)\n"
    digest = hashlib.sha256(data).hexdigest()
    tree = {"files": [{"path": "t.py", "digest": digest, "size": len(data), "mode": 0o644}]}
    reply = api.post("workspaces/w/snapshots", json=tree).json()
    assert reply["missing"] == [digest]
    wrong = digest.encode() + b" 3\nabc"
    problem(api.post("blobs", content=wrong), 400)
    framed = f"{digest} {len(data)}\n".encode() + data
    assert api.post("blobs", content=framed).json() == {"stored": 1}
    again = api.post("workspaces/w/snapshots", json=tree).json()
    assert again == {"id": reply["id"], "missing": []}


@pytest.mark.parametrize(
    "file",
    [
        {"path": "../x", "digest": "0" * 64},
        {"path": "/etc/passwd", "digest": "0" * 64},
        {"path": "a", "digest": "zz"},
        {"path": "a", "digest": "0" * 64, "mode": 0o4755},
        {"path": "a", "link": "/etc/passwd"},
        {"path": "a", "link": "../../x"},
        {"path": "a\x00b", "digest": "0" * 64},
        {"path": "a", "digest": "0" * 64, "size": -1},
    ],
)
def test_hostile_trees_are_refused(api: TestClient, file: dict[str, Any]) -> None:
    problem(api.post("workspaces/w/snapshots", json={"files": [file]}), 400)


def test_bodies_are_bounded(api: TestClient, plane: Plane, snapshot: str) -> None:
    run_id, attempt, token = started(api, plane, snapshot)
    big = b"x" * (4 << 20) + b"y"
    params: dict[str, Any] = {"attempt": attempt, "offset": 0}
    problem(
        api.put(f"runs/{run_id}/logs/{STD_LOG}", params=params, content=big, headers=token), 413
    )
    plane.settings.max_body_bytes = 10
    app = create_app(plane, reconcile=False)
    small = TestClient(app, raise_server_exceptions=False)
    headers = {"Authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    long = json.dumps({"name": "a" * 100}).encode()
    problem(small.post("/api/v1/workspaces", content=long, headers=headers), 413)
    pieces = iter([long[:50], long[50:]])
    problem(small.post("/api/v1/workspaces", content=pieces, headers=headers), 413)


def test_versions_that_do_not_fit_get_a_sentence(api: TestClient) -> None:
    reply = api.get("workspaces", headers={"Wherry-Api": "99"})
    assert "interface 99" in problem(reply, 426)["detail"]
    answer = api.get("workspaces", headers={"Wherry-Api": "1"})
    assert answer.headers["wherry-api"] == "1"
    assert answer.headers["wherry-server"] == reply.headers["wherry-server"] != ""


def test_unexpected_errors_show_no_trace(api: TestClient, plane: Plane) -> None:
    database, plane.database = plane.database, None  # type: ignore[assignment]
    problem(api.get("workspaces"), 500)
    plane.database = database


def test_unknown_addresses_and_methods_are_problems_too(api: TestClient) -> None:
    problem(api.get("nothing/here"), 404)
    problem(api.put("workspaces"), 405)
    problem(api.post("workspaces", content=b"{", headers={"content-type": "application/json"}), 400)


def test_the_servers_own_numbers(api: TestClient, snapshot: str) -> None:
    submit(api, snapshot)
    text = api.get("prometheus").text
    assert 'wherry_runs{status="Queued"} 1' in text
    assert 'wherry_runs{status="Queued"} 1' in api.get("http://testserver/metrics").text
    strangers = {"Authorization": "Bearer nobody"}
    problem(api.get("http://testserver/metrics", headers=strangers), 401)
    targets = api.get("targets").json()["items"]
    assert [target["name"] for target in targets] == ["local"]
    assert api.get("server").json()["version"]


def test_the_page_is_served_without_a_token_but_shows_nothing(api: TestClient) -> None:
    del api.headers["Authorization"]
    page = api.get("http://testserver/view/")
    assert "Content-Security-Policy" in page.headers
    assert api.get("http://testserver/view/view.js").status_code == 200
    problem(api.get("http://testserver/view/secret.key"), 404)


def test_the_largest_piece_that_a_runner_sends_is_taken(
    api: TestClient, plane: Plane, snapshot: str
) -> None:
    run_id, attempt_id, mine = started(api, plane, snapshot)
    piece = bytes(range(256)) * (LOG_CHUNK // 256)
    place = f"runs/{run_id}/logs/{STD_LOG}?attempt={attempt_id}&offset=0"
    reply = api.put(place, content=piece, headers=mine)
    assert reply.json() == {"size": LOG_CHUNK}
    assert api.get(f"runs/{run_id}/logs/{STD_LOG}").content == piece
    assert api.put(place, content=piece + b"x", headers=mine).status_code == 413
