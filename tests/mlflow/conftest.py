from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import Home, living

from .clients import Clients, interpreter


@pytest.fixture(scope="session", params=["oldest", "newest"])
def python(request: pytest.FixtureRequest) -> str:
    return interpreter(request.param)


@pytest.fixture(scope="session")
def newest() -> str:
    return interpreter("newest")


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One server for all tests of a file; what they log is kept apart by name."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch, living(folder, patch) as home:
        yield home


@pytest.fixture
def clients(shared_home: Home, python: str, tmp_path: Path) -> Clients:
    return Clients(python, tmp_path)
