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


def find_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    here = shutil.which("initdb")
    return Path(here).parent if here else None


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/tmp")
    assert done.returncode == 0, done.stdout + done.stderr
