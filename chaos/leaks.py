"""What must not be left when all runs have ended, and when the server has stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import text

from chaos.books import all_runs
from chaos.holdings import grown, holdings, kept
from chaos.workload import insist
from chaos.world import World, wait_until
from wherry.sdk.connection import forget
from wherry.store.database import Database, sqlite_url

_PATIENCE_S = 40.0
_LOOK_S = 0.3


def find_leaks(world: World, fresh: Mapping[str, int]) -> list[str]:
    """Looks for what the server holds beyond what it held when ``fresh``; then stops it, and looks
    for what stays behind."""
    world.start_server()
    try:
        wait_until(lambda: not world.attempt_folders(), "clearing away the attempts' folders", 90)
    except TimeoutError as error:
        left = [sorted(each.name for each in path.iterdir()) for path in world.attempt_folders()]
        return [f"{error}: {left}; {_rows(world)}"]
    held = _held(world, fresh)
    world.stop()
    with suppress(TimeoutError):  # the last threads of a killed process may take a moment
        wait_until(lambda: not _locks(world), "dropping the locks", 5)
    return [
        *(f"the server has {fault}" for fault in held),
        *(f"a process: {process}" for process in world.processes()),
        *(f"a folder of an attempt: {path.name}" for path in world.attempt_folders()),
        *(f"a folder of a node: {path.name}" for path in world.node_folders()),
        *(f"an unfinished file: {path}" for path in _temporary(world)),
        *(f"a lock: {line}" for line in _locks(world)),
        *_rows(world),
    ]


def _held(world: World, fresh: Mapping[str, int]) -> list[str]:
    """What the server does not let go of, though it has nothing to do."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        insist(all_runs)  # threads that idle go when there is a request
        forget()
        time.sleep(_LOOK_S)
        more = grown(fresh, holdings(world), kept(world))
        if not more or time.monotonic() > until:
            return more


def _temporary(world: World) -> Sequence[Path]:
    unfinished = [*world.home.glob("blobs/incoming/*"), *world.home.glob("**/*.tmp")]
    return [*unfinished, *world.temporary.iterdir()]


def _locks(world: World) -> Sequence[str]:
    """Locks that someone holds on a file of the home; the kernel names files by their inode."""
    paths = {str(path.stat().st_ino): path for path in world.home.rglob("*") if path.is_file()}
    found = []
    for line in Path("/proc/locks").read_text().splitlines():
        holder, _, inode = line.split()[-4], *line.split()[-3].rpartition(":")[1:]
        if inode in paths:
            found.append(f"{paths[inode]} by process {holder}")
    return found


def _rows(world: World) -> list[str]:
    url = world.variables.get("WHERRY_DATABASE_URL") or sqlite_url(world.home / "wherry.db")
    database = Database(url)
    with database.read() as connection:
        leases = connection.execute(text("SELECT name, owner FROM leases")).fetchall()
        open_attempts = connection.execute(
            text("SELECT id FROM attempts WHERE ended_at IS NULL OR released_at IS NULL")
        ).fetchall()
        present = connection.execute(
            text("SELECT name, state, reason FROM nodes WHERE removed_at IS NULL")
        ).fetchall()
    database.close()
    return [
        *(f"a lease: {name} of {owner}" for name, owner in leases),
        *(f"a node: {name} {state} {reason}" for name, state, reason in present),
        *(f"an attempt that has not ended: {each}" for (each,) in open_attempts),
    ]
