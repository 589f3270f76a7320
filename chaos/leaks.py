"""What must not be left when all runs have ended and the server has stopped."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from chaos.world import World, wait_until


def find_leaks(world: World) -> list[str]:
    """Stops the server and looks for what stays behind."""
    world.start_server()
    try:
        wait_until(lambda: not _attempt_folders(world), "clearing away the attempts' folders", 60)
    except TimeoutError as error:
        left = [sorted(each.name for each in path.iterdir()) for path in _attempt_folders(world)]
        return [f"{error}: {left}; {_rows(world.home / 'wherry.db')}"]
    world.stop()
    return [
        *(f"a process: {process}" for process in world.processes()),
        *(f"a folder of an attempt: {path.name}" for path in _attempt_folders(world)),
        *(f"an unfinished file: {path}" for path in _temporary(world)),
        *_rows(world.home / "wherry.db"),
    ]


def _attempt_folders(world: World) -> Sequence[Path]:
    return [path for path in world.home.glob("nodes/local/*") if path.is_dir()]


def _temporary(world: World) -> Sequence[Path]:
    return [*world.home.glob("blobs/incoming/*"), *world.home.glob("**/*.tmp")]


def _rows(database: Path) -> list[str]:
    if not database.exists():
        return []
    with sqlite3.connect(database) as connection:
        leases = connection.execute("SELECT name, owner FROM leases").fetchall()
        open_attempts = connection.execute(
            "SELECT id FROM attempts WHERE ended_at IS NULL OR released_at IS NULL"
        ).fetchall()
    return [
        *(f"a lease: {name} of {owner}" for name, owner in leases),
        *(f"an attempt that has not ended: {each}" for (each,) in open_attempts),
    ]
