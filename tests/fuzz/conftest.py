from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.databases import new_database
from tests.fuzz.target import Target, serve


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """A real server on either database."""
    url = ""
    if request.param == "postgres":
        url = new_database(request.getfixturevalue("postgres_url"))
    with serve(tmp_path, url) as target:
        yield target
