"""A throw-away PostgreSQL server on a Unix socket."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def start(programs: Path) -> Iterator[str]:
    """Its address."""
    folder = Path(tempfile.mkdtemp(prefix="wherry-pg-", dir="/tmp"))
    user = "postgres" if os.getuid() == 0 else getpass.getuser()
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    _run(programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", user, "--no-sync")
    control(programs, folder, "start")
    try:
        yield f"postgresql://{user}@/postgres?host={folder}"
    finally:
        control(programs, folder, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def control(programs: Path, folder: Path, *command: str) -> None:
    """Start or stop the server of that folder."""
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    place: list[str | Path] = ["-D", folder / "data", "-w", "-l", folder / "log", "-o", options]
    _run(programs / "pg_ctl", *place, *command)


def find_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    here = shutil.which("initdb")
    return Path(here).parent if here else None


def _run(*command: str | Path) -> None:
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    # Not for the tests' own variables: by those they find, and end, what belongs to a home.
    env = {name: value for name, value in os.environ.items() if not name.startswith("WHERRY_")}
    done = subprocess.run(
        [*as_user, *command], capture_output=True, text=True, check=False, cwd="/tmp", env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
