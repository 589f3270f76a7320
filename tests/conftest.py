"""Databases for tests: SQLite always, and PostgreSQL of their own where it is installed."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import home
from wherry.store.database import Database
from wherry.store.migrate import migrate
from wherry.store.tables import metadata

__all__ = ["home"]


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A throw-away PostgreSQL server on a Unix socket."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="wherry-pg-", dir="/tmp"))
    as_user: list[str | Path] = []
    if os.getuid() == 0:
        as_user = ["runuser", "-u", "postgres", "--"]
    user = "postgres" if as_user else getpass.getuser()
    if as_user:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    _run([*as_user, programs / "initdb", "-D", data, "-A", "trust", "-U", user, "--no-sync"])
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    control = [*as_user, programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    _run([*control, "-o", options, "start"])
    try:
        yield f"postgresql://{user}@/postgres?host={folder}"
    finally:
        _run([*control, "-m", "immediate", "stop"])
        shutil.rmtree(folder, ignore_errors=True)


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


def _postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    here = shutil.which("initdb")
    return Path(here).parent if here else None


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/tmp")
    assert done.returncode == 0, done.stdout + done.stderr
