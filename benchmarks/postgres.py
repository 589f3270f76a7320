"""A PostgreSQL of one's own, for as long as a benchmark takes."""

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
def postgres(names: list[str]) -> Iterator[dict[str, str] | None]:
    """Addresses of new databases by their names; None where PostgreSQL is not installed.

    With its own defaults: what is committed is on disk.
    """
    programs = _programs()
    if programs is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="wherry-bench-pg-", dir="/tmp"))
    as_user: list[str | Path] = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    user = "postgres" if as_user else getpass.getuser()
    if as_user:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    _run([*as_user, programs / "initdb", "-D", data, "-A", "trust", "-U", user])
    control = [*as_user, programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    _run([*control, "-o", f"-k {folder} -c listen_addresses= -c max_connections=200", "start"])
    try:
        for name in names:
            _run([*as_user, programs / "createdb", "-h", folder, "-U", user, name])
        yield {name: f"postgresql://{user}@/{name}?host={folder}" for name in names}
    finally:
        _run([*control, "-m", "immediate", "stop"])
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    here = shutil.which("initdb")
    return Path(here).parent if here else None


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, cwd="/tmp"
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
