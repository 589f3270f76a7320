"""A server without reconcilers, as its owner's client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, make_plane
from wherry.api.app import create_app
from wherry.control.plane import Plane
from wherry.drivers.memory import MemoryDriver


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    """On SQLite; who means both databases has a fixture of this name."""
    return make_plane(tmp_path / "home", {"local": MemoryDriver()})


@pytest.fixture
def api(plane: Plane) -> Iterator[TestClient]:
    app = create_app(plane, reconcile=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        client.base_url = client.base_url.join("/api/v1/")
        yield client


@pytest.fixture
def snapshot(plane: Plane) -> str:
    return add_snapshot(plane, {"train.py": b"print(1)\n", "lib/a.py": b"x = 1\n"})
