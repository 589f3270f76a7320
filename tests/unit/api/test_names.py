"""The two names that keep notebooks and the page apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.planes import make_plane
from wherry.api.app import create_app
from wherry.api.names import Names
from wherry.core.settings import resolve
from wherry.drivers.memory import MemoryDriver


@pytest.mark.parametrize(
    ("host", "for_instances", "for_view"),
    [
        ("127.0.0.1:8700", "localhost:8700", None),
        ("127.0.0.1", "localhost", None),
        ("[::1]:8700", "localhost:8700", None),
        ("localhost:8700", None, "127.0.0.1:8700"),
        ("LOCALHOST.:8700", None, "127.0.0.1:8700"),
        ("lab.example:8700", None, None),
        ("", None, None),
    ],
)
def test_on_the_loopback_address(
    host: str, for_instances: str | None, for_view: str | None
) -> None:
    names = Names("127.0.0.1")
    assert names.for_instances(host) == for_instances
    assert names.for_view(host) == for_view


def test_a_server_that_cannot_be_reached_by_both_has_one_name() -> None:
    names = Names("10.1.2.3")
    assert names.for_instances("10.1.2.3:8700") is None
    assert names.for_view("localhost:8700") is None


def test_a_second_name_that_is_given(tmp_path: Path) -> None:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    given = {"allowed_hosts": "lab.example", "instances_host": "notebooks.example:443"}
    plane.settings = resolve({"home": str(tmp_path / "home"), **given}, {})
    page = {"Accept": "text/html", "X-Forwarded-Proto": "https"}
    with TestClient(create_app(plane, reconcile=False), follow_redirects=False) as client:
        there = client.get("/instances/w/nb/lab", headers={**page, "Host": "lab.example"})
        assert there.headers["location"] == "https://notebooks.example/instances/w/nb/lab"
        own = {**page, "Host": "notebooks.example"}
        assert client.get("/instances/w/nb/lab", headers=own).status_code == 401
        assert client.get("/view/", headers=own).status_code == 421
        assert client.get("/view/view.css", headers=own).status_code == 200
        assert client.get("/view/", headers={"Host": "lab.example"}).status_code == 200
