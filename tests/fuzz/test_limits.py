"""Walks docs/reference/limits.md: each number is the real one, each answer is the one given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.fuzz.test_connections import AUTHORIZED, Server, answer
from tests.planes import TOKEN, add_snapshot, make_plane, run_fields
from tests.unit.api.test_api import started
from wherry.api import files, frames, limits, runs, tracking
from wherry.api.app import create_app
from wherry.control.plane import Plane
from wherry.core.environments import MAX_BYTES
from wherry.core.settings import resolve
from wherry.core.specs import MAX_RUN_DURATION_S
from wherry.drivers.memory import MemoryDriver

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| limit", "|---"))
]
DEFAULTS = resolve({}, {})

NUMBERS: dict[str, object] = {
    "connections at once; idle ones are closed first": limits.MAX_CONNECTIONS,
    "head of a request": limits.MAX_HEAD_BYTES,
    "lines in a head": limits.MAX_HEADERS,
    "requests sent before an answer": limits.MAX_PIPELINED,
    "time for a head": limits.HEAD_S,
    f"time for each {limits.BODY_BYTES >> 10} KiB of a body": limits.BODY_S,
    "time for a client to take any byte of an answer": limits.READER_S,
    "time for the rest of a body that is not wanted": limits.LINGER_S,
    "time between requests": limits.IDLE_S,
    "bodies in memory, all together": limits.MAX_HELD_BYTES,
    "requests and websockets to compute instances, at once": limits.MAX_PROXIED,
    "time for a compute instance to begin its answer": limits.ANSWER_S,
    "JSON body (`max_body_bytes`)": DEFAULTS.max_body_bytes,
    "file, and all files of one batch (`max_file_bytes`)": DEFAULTS.max_file_bytes,
    "piece of a log": files.MAX_LOG_PIECE,
    "piece of a spool": tracking._MAX_SPOOL,
    "line before a file in a batch": frames._MAX_HEADER,
    "filters of a kind in a listing": runs._MAX_FILTERS,
    "`max_run_duration_s`": MAX_RUN_DURATION_S,
    "specification of an environment": MAX_BYTES,
}


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()})


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, reconcile=False), raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        client.base_url = client.base_url.join("/api/v1/")
        yield client


def test_the_page_lists_every_limit_once() -> None:
    names = [row[0] for row in ROWS]
    assert len(names) == len(set(names)) > 25
    assert set(NUMBERS) <= set(names)
    assert {row[0] for row in ROWS if row[3]} == set(REQUESTS) | set(CONNECTIONS)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_the_code(name: str) -> None:
    (number,) = [row[1] for row in ROWS if row[0] == name]
    assert counted(number) == NUMBERS[name]


def counted(number: str) -> int:
    units = {"KiB": 2**10, "MiB": 2**20, "TiB": 2**40}
    count, _, unit = number.partition(" ")
    return int(count) * units.get(unit, 1)


def row_of(name: str) -> tuple[int, int, str]:
    """The number, the answer and the message that the page gives."""
    (row,) = [row for row in ROWS if row[0] == name]
    return counted(row[1]), int(row[2]), row[3]


def interactive(api: TestClient, **fields: Any) -> Any:
    return api.post("workspaces/w/runs/interactive", json={"experiment": "e", **fields})


def described(api: TestClient, **fields: Any) -> Any:
    body = {"name": "train", "specification": {}, **fields}
    return api.post("workspaces/w/environments", json=body)


def entry(path: str) -> dict[str, Any]:
    return {"files": [{"path": path, "digest": "a" * 64, "size": 1}]}


def declared(size: int) -> dict[str, str]:
    return {"Content-Length": str(size)}


def put_log(api: TestClient, plane: Plane, size: int) -> Any:
    run_id, attempt, token = started(api, plane, add_snapshot(plane, {"train.py": b""}))
    where = f"runs/{run_id}/logs/user_logs/std_log.txt?attempt={attempt}&offset=0"
    return api.put(where, content=b"x" * size, headers=token)


def bulk(api: TestClient, plane: Plane, count: int) -> Any:
    many = [run_fields(add_snapshot(plane, {"train.py": b""}))] * count
    return api.post("workspaces/w/runs/bulk", json={"runs": many})


def in_run(api: TestClient, method: str, path: str, **options: Any) -> Any:
    return api.request(method, f"runs/{interactive(api).json()['id']}/{path}", **options)


def ordered(api: TestClient, query: str) -> Any:
    return api.get(f"workspaces/w/runs?{query}")


Ask = Callable[[TestClient, Plane, int], Any]

REQUESTS: dict[str, Ask] = {
    "JSON body (`max_body_bytes`)": lambda api, plane, n: api.post(
        "workspaces", content=b"{" * 10, headers=declared(n)
    ),
    "file, and all files of one batch (`max_file_bytes`)": lambda api, plane, n: in_run(
        api, "PUT", "files/a", content=b"", headers=declared(n)
    ),
    "piece of a log": put_log,
    "piece of a spool": lambda api, plane, n: in_run(
        api, "POST", "spool/s?offset=0", content=b"\n" * n
    ),
    "line before a file in a batch": lambda api, plane, n: in_run(
        api, "POST", "files/batch", content=b"a" * n
    ),
    "runs in one submission": bulk,
    "filters of a kind in a listing": lambda api, plane, n: ordered(
        api, "&".join(f"tag=k{each}" for each in range(n))
    ),
    "runs on a page": lambda api, plane, n: ordered(api, f"limit={n}"),
    "seconds of one wait": lambda api, plane, n: in_run(api, "GET", f"wait?timeout_s={n}"),
    "name of a workspace or experiment": lambda api, plane, n: api.post(
        "workspaces", json={"name": "n" * n}
    ),
    "name or version of an environment": lambda api, plane, n: described(
        api, name="n" * n, version="1" * n
    ),
    "specification of an environment": lambda api, plane, n: described(
        api, specification={"spark": {"a": "x" * (n - len('{"spark":{"a":""}}'))}}
    ),
    "id of a run": lambda api, plane, n: interactive(api, run_id="n" * n),
    "submission key": lambda api, plane, n: api.post(
        "workspaces/w/runs",
        json=run_fields(add_snapshot(plane, {"train.py": b""}), submission_key="n" * n),
    ),
    "key of a tag or property": lambda api, plane, n: interactive(api, tags={"n" * n: ""}),
    "tag, property, description, display name": lambda api, plane, n: interactive(
        api, tags={"k": "n" * n}, display_name="n" * n
    ),
    "tags, and properties, of a request": lambda api, plane, n: interactive(
        api, tags={f"k{each}": "" for each in range(n)}
    ),
    "name of a run's file": lambda api, plane, n: in_run(
        api, "PUT", "files/" + ("/".join(["n" * 200] * 20))[:n], content=b""
    ),
    "path in a snapshot": lambda api, plane, n: api.post(
        "workspaces/w/snapshots", json=entry(("/".join(["n" * 200] * 20))[:n])
    ),
    "part of a path": lambda api, plane, n: api.post("workspaces/w/snapshots", json=entry("n" * n)),
    "name of a spool": lambda api, plane, n: in_run(
        api, "POST", f"spool/{'n' * n}?offset=0", content=b""
    ),
    "`max_run_duration_s`": lambda api, plane, n: api.post(
        "workspaces/w/runs",
        json=run_fields(add_snapshot(plane, {"train.py": b""}), max_run_duration_s=n),
    ),
}


# What would take long though it is allowed.
LONG = {"runs in one submission", "seconds of one wait"}


def test_one_more_is_refused_as_the_page_says(api: TestClient, plane: Plane) -> None:
    for name, ask in REQUESTS.items():
        number, status, message = row_of(name)
        refused = ask(api, plane, number + 1)
        told = refused.json()
        assert (refused.status_code, told["status"]) == (status, status), (name, told)
        assert message in told["detail"] + told.get("hint", ""), name
        allowed = ask(api, plane, 1 if name in LONG else number)
        assert message not in allowed.text, name


def connected(server: Server, text: str) -> tuple[int, dict[str, Any]]:
    with server.connect(text) as client:
        return answer(client)


def many_connections(server: Server) -> tuple[int, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.server.server_state, "connections", Crowd())
        return connected(server, "")


class Crowd(set[Any]):
    """As many as there may be, and none of them idle."""

    def __len__(self) -> int:
        return super().__len__() + limits.MAX_CONNECTIONS


def much_memory(server: Server) -> tuple[int, dict[str, Any]]:
    held = server.server.config.app.state.held  # type: ignore[union-attr]
    with held.share() as share:
        held.take(share, limits.MAX_HELD_BYTES - 1000)
        body = "Connection: close\r\nContent-Length: 1001\r\n\r\n" + "x" * 1001
        return connected(server, POST + body)


POST = f"POST /api/v1/workspaces HTTP/1.1\r\n{AUTHORIZED}"
CONNECTIONS: dict[str, Callable[[Server], tuple[int, dict[str, Any]]]] = {
    "connections at once; idle ones are closed first": many_connections,
    "head of a request": lambda server: connected(server, POST + "X: " + "x" * 65_536),
    "lines in a head": lambda server: connected(server, POST + "X: x\r\n" * 99 + "\r\n"),
    "requests sent before an answer": lambda server: connected(
        server, f"GET /api/v1/server HTTP/1.1\r\n{AUTHORIZED}\r\n" * 23
    ),
    "time for a head": lambda server: connected(server, POST),
    "time for each 16 KiB of a body": lambda server: connected(
        server, POST + "Content-Length: 9\r\n\r\n{"
    ),
    "bodies in memory, all together": much_memory,
}


def test_connections_are_refused_as_the_page_says(tmp_path: Path) -> None:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    with Server(plane) as server:
        for name, act in CONNECTIONS.items():
            _, status, message = row_of(name)
            found, problem = act(server)
            assert (found, problem["status"]) == (status, status), (name, problem)
            assert message in problem["detail"], name
