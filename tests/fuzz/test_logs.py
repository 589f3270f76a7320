"""Logs: any bytes in any pieces, and the same bytes come back from any place."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.planes import TOKEN, add_snapshot, make_plane
from tests.unit.api.test_api import started
from wherry.api.app import create_app
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver
from wherry.sdk.console import LogText


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    return make_plane(tmp_path / "home", {"local": MemoryDriver()})


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, reconcile=False)) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        client.base_url = client.base_url.join("/api/v1/")
        yield client


ANY = st.lists(
    st.binary(max_size=50)
    | st.sampled_from([b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xf0\x9f", b"\x1b[2J", b"\x90\x8d"]),
    max_size=8,
)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pieces=ANY, again=st.lists(st.integers(0, 400), max_size=4), read=st.integers(0, 500))
def test_any_bytes_come_back(
    api: TestClient, plane: Plane, pieces: list[bytes], again: list[int], read: int
) -> None:
    run_id, attempt, token = started(api, plane, add_snapshot(plane, {"train.py": b""}))
    where, whole = f"runs/{run_id}/logs/user_logs/std_log.txt", b"".join(pieces)
    offset = 0
    for piece in pieces[:-1]:
        api.put(f"{where}?attempt={attempt}&offset={offset}", content=piece, headers=token)
        offset += len(piece)
        for earlier in again:  # whose answers were lost
            start = min(earlier, offset)
            lost = f"{where}?attempt={attempt}&offset={start}"
            reply = api.put(lost, content=whole[start:offset], headers=token)
            assert reply.json() == {"size": offset}
    last = base64.b64encode(whole[offset:]).decode()
    body = {"exit": {"exit_code": 0}, "log": {"offset": offset, "data": last}}
    assert api.post(f"attempts/{attempt}/report", json=body, headers=token).status_code == 200
    assert api.get(where).content == whole
    assert api.get(f"{where}?offset={read}").content == whole[read:]
    assert api.get(f"{where}?offset={read}&follow=true").content == whole[read:]
    assert api.get(f"runs/{run_id}/files/user_logs/std_log.txt").content == whole


@settings(max_examples=100, deadline=None, derandomize=True)
@given(pieces=ANY)
def test_the_text_does_not_depend_on_the_pieces(pieces: list[bytes]) -> None:
    text, whole = LogText(), b"".join(pieces)
    shown = "".join(text.feed(piece) for piece in pieces) + text.end()
    assert shown.rstrip("\n") == whole.decode("utf-8", "replace").rstrip("\n")
