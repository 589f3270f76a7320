"""What all tests share: where they are, and databases, PostgreSQL where it is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import podman as podman_of_tests
from tests import s3 as s3_of_tests
from tests.homes import home
from tests.postgres import find_programs, start
from wherry.store.database import Database
from wherry.store.migrate import migrate
from wherry.store.model_tables import every_table as metadata

__all__ = ["home"]

# The same examples on every machine, however slow; `make fuzz` looks for new ones.
settings.register_profile(
    "patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _stay_here() -> Iterator[None]:
    """A runner's code changes into the command's folder, also when a test calls it."""
    here = os.getcwd()
    yield
    os.chdir(here)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A throw-away PostgreSQL server on a Unix socket."""
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with start(programs) as url:
        yield url


@pytest.fixture(scope="session")
def podman() -> Iterator[podman_of_tests.Podman]:
    """A podman of the tests' own that answers on a socket."""
    missing = podman_of_tests.missing()
    if missing:
        pytest.skip(f"there are no containers here: {missing}")
    with podman_of_tests.serving() as podman:
        yield podman


@pytest.fixture(scope="session")
def s3_server() -> Iterator[s3_of_tests.Server]:
    missing = s3_of_tests.missing()
    if missing:
        pytest.skip(missing)
    with s3_of_tests.serving() as server:
        yield server


@pytest.fixture
def s3(s3_server: s3_of_tests.Server, monkeypatch: pytest.MonkeyPatch) -> s3_of_tests.Server:
    """A real S3 server, and the variables of one who may use it."""
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Migrated and empty."""
    database = Database(database_url)
    migrate(database)
    with database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    yield database
    database.close()
