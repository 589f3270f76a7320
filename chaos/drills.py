"""The drills by name. Each breaks something while runs go on; then the books are audited."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos import cable, clients, clock, databases, disks, growth, processes
from chaos.books import Books
from chaos.leaks import find_leaks
from chaos.workload import Workload, insist
from chaos.world import Staging, World, new_world

KEEP = Path(".chaos")


@dataclass(frozen=True)
class Drill:
    """``rounds`` are those of the campaign, ``short`` those of the tests.

    ``staging`` prepares what must be there before the server is.
    """

    act: Callable[[Workload, int], None]
    rounds: int
    short: int = 2
    staging: Staging | None = None


@dataclass(frozen=True)
class Outcome:
    """What one drill came to."""

    name: str
    rounds: int
    runs: int
    seconds: float
    wrong: list[str]


DRILLS: dict[str, Drill] = {
    "server killed": Drill(processes.kill_server, 1000, 50),
    "runner killed": Drill(processes.kill_runner, 60, 3),
    "group killed": Drill(processes.kill_group, 60, 3),
    "everything killed": Drill(processes.kill_everything, 60, 3),
    "nursery killed": Drill(processes.kill_nursery, 60, 3),
    "nursery stopped": Drill(processes.stop_nursery, 10, 1),
    "server stopped": Drill(processes.stop_server, 10),
    "runner stopped": Drill(processes.stop_runner, 10),
    "two servers": Drill(processes.two_servers, 20, 1),
    "network cut": Drill(cable.cut_network, 10, 1),
    "database locked": Drill(databases.lock_sqlite, 10, 1),
    "postgres locked": Drill(databases.lock_postgres, 10, 1, databases.postgres),
    "postgres killed": Drill(databases.kill_postgres, 20, 1, databases.postgres),
    "node's disk full": Drill(disks.fill_node, 20, 1, disks.small_node),
    "server's disk full": Drill(disks.fill_server, 20, 1, disks.small_server),
    "clock set": Drill(clock.set_clock, 24, 2, clock.own_clock),
    "client killed": Drill(clients.kill_client, 100, 5),
    "bulk killed": Drill(clients.kill_bulk, 20),
    "all at once": Drill(clients.all_at_once, 25, 1),
    "many runs": Drill(growth.many_runs, 50),
}
"""In the order in which the campaign holds them."""


def hold(name: str, rounds: int, seed: int) -> Outcome:
    """One drill in a world of its own, then the audit, then the look for leaks."""
    started = time.monotonic()
    drill = DRILLS[name]
    with new_world(drill.staging) as world:
        work = Workload(world, Books(), random.Random(f"{name} {seed}"))
        wrong = _wrong(drill, work, rounds)
        if wrong:
            _keep(world, f"{name} {seed}")
        runs = len(work.books.entries) + work.elsewhere
        return Outcome(name, rounds, runs, time.monotonic() - started, wrong)


def _wrong(drill: Drill, work: Workload, rounds: int) -> list[str]:
    try:
        insist(work.experiment)
        drill.act(work, rounds)
        work.settle()
        wrong = insist(lambda: work.books.audit(work.world.ledger))
        return wrong + find_leaks(work.world)
    except (AssertionError, TimeoutError) as error:
        return [str(error) or type(error).__name__]


def _keep(world: World, name: str) -> None:
    """What the world looked like, for whoever looks for the cause."""
    place = KEEP / name.replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(world.folder, place, symlinks=True, ignore_dangling_symlinks=True)
