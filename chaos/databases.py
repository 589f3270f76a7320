"""Drills on databases that are locked or killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import psycopg
from tests.postgres import control, find_programs, start

from chaos.workload import Workload
from chaos.world import Stage, Unavailable, send, wait_until

_URL = "WHERRY_DATABASE_URL"


def lock_sqlite(work: Workload, rounds: int) -> None:
    """Another program holds the database for longer than anyone likes."""
    for _ in range(rounds):
        work.submit(count=10, pause_s=0.05)
        with closing(sqlite3.connect(work.world.home / "wherry.db", timeout=60)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(work.chance.uniform(1, 5))
            connection.rollback()


@contextmanager
def postgres(_folder: Path) -> Iterator[Stage]:
    programs = find_programs()
    if programs is None:
        raise Unavailable("PostgreSQL is not installed")
    with start(programs) as url:
        yield Stage({_URL: url})


def lock_postgres(work: Workload, rounds: int) -> None:
    for _ in range(rounds):
        work.submit(count=10, pause_s=0.05)
        with psycopg.connect(work.world.variables[_URL]) as connection:
            _lock_tables(connection)
            time.sleep(work.chance.uniform(1, 4))
            connection.rollback()


def _lock_tables(connection: psycopg.Connection) -> None:
    """One after the other, so that the server may wait for the second with the first in hand:
    then one of both is refused, and tries again.
    """
    while True:
        try:
            connection.execute("LOCK TABLE runs, attempts IN ACCESS EXCLUSIVE MODE")
        except psycopg.errors.DeadlockDetected:
            connection.rollback()
        else:
            return


def kill_postgres(work: Workload, rounds: int) -> None:
    """SIGKILL to all of its processes; it is started again after a while."""
    programs = find_programs()
    assert programs is not None
    folder = Path(parse_qs(urlsplit(work.world.variables[_URL]).query)["host"][0])
    for _ in range(rounds):
        work.submit(count=10, pause_s=0.05)
        time.sleep(work.chance.uniform(0, 0.5))
        postmaster = int((folder / "data/postmaster.pid").read_text().split("\n", 1)[0])
        killed = [postmaster, *_children(postmaster)]
        for pid in killed:
            send(pid, signal.SIGKILL)
        time.sleep(work.chance.uniform(0.5, 3))
        # One that nobody has waited for yet still counts as alive, to PostgreSQL.
        wait_until(partial(_gone, killed), "the end of PostgreSQL")
        control(programs, folder, "start")
        work.submit(count=3)


def _gone(pids: list[int]) -> bool:
    return not any(map(psutil.pid_exists, pids))


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in listed.stdout.split()]
