"""The drills by name. Each breaks something while runs go on; then the books are audited."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from chaos import (
    cable,
    clients,
    clock,
    clusters,
    databases,
    disks,
    engines,
    environments,
    growth,
    hosts,
    machines,
    processes,
)
from chaos.books import Books
from chaos.verdict import Act, judge
from chaos.workload import Workload
from chaos.world import Staging, new_world


@dataclass(frozen=True)
class Drill:
    """``rounds`` are those of the campaign, ``short`` those of the tests.

    ``staging`` prepares what must be there before the server is.
    """

    act: Act
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
    "killed in a burst": Drill(processes.kill_in_burst, 60, 3),
    "nursery killed": Drill(processes.kill_nursery, 60, 3),
    "nursery stopped": Drill(processes.stop_nursery, 10, 1),
    "server stopped": Drill(processes.stop_server, 12),
    "runner stopped": Drill(processes.stop_runner, 12),
    "two servers": Drill(processes.two_servers, 20, 1),
    "network cut": Drill(cable.cut_network, 12, 1),
    "database locked": Drill(databases.lock_sqlite, 10, 1),
    "postgres locked": Drill(databases.lock_postgres, 10, 1, databases.postgres),
    "postgres killed": Drill(databases.kill_postgres, 20, 1, databases.postgres),
    "node's disk full": Drill(disks.fill_node, 20, 1, disks.small_node),
    "server's disk full": Drill(disks.fill_server, 20, 1, disks.small_server),
    "builders killed": Drill(environments.build_under_fire, 40, 2, environments.no_downloads),
    "clock set": Drill(clock.set_clock, 24, 2, clock.own_clock),
    "client killed": Drill(clients.kill_client, 100, 5),
    "bulk killed": Drill(clients.kill_bulk, 20),
    "all at once": Drill(clients.all_at_once, 25, 1),
    "scaling killed": Drill(clusters.kill_scaling, 200, 8, clusters.slots),
    "removal raced": Drill(clusters.race_removal, 60, 3, clusters.slots),
    "room exhausted": Drill(clusters.exhaust, 20, 1, clusters.slots),
    "node killed": Drill(clusters.kill_node, 60, 2, clusters.slots),
    "one of two killed": Drill(clusters.kill_one_of_two, 60, 2, clusters.slots),
    "evicted": Drill(clusters.evict, 30, 1, clusters.slots),
    "cluster's clock": Drill(clock.set_clock_of_cluster, 24, 2, clock.own_clock_and_slots),
    "sshd stopped": Drill(hosts.stop_sshd, 12, 2, hosts.pool),
    "host killed": Drill(hosts.kill_host, 40, 1, hosts.pool),
    "host refuses": Drill(hosts.refuse, 20, 1, hosts.pool),
    "hosts cut off": Drill(cable.cut_hosts, 12, 1),
    "host cut off": Drill(hosts.cut_off, 12, 1, hosts.far_pool),
    "host given up": Drill(hosts.give_up, 12, 1, hosts.far_pool),
    "host's disk full": Drill(hosts.fill_host, 20, 1, hosts.small_pool),
    "pool killed": Drill(hosts.kill_scaling, 100, 4, hosts.pool),
    "pool exhausted": Drill(hosts.exhaust, 20, 1, hosts.pool),
    "engine killed": Drill(engines.kill_engine, 40, 2, engines.engine),
    "password changed": Drill(machines.change_password, 20, 2, machines.guarded),
    "machine rebooted": Drill(machines.reboot, 20, 2, machines.bootable),
    "many runs": Drill(growth.many_runs, 50),
}
"""In the order in which the campaign holds them."""


def hold(name: str, rounds: int, seed: int) -> Outcome:
    """One drill in a world of its own."""
    started = time.monotonic()
    drill = DRILLS[name]
    with new_world(drill.staging) as world:
        work = Workload(world, Books(), random.Random(f"{name} {seed}"))
        wrong = judge(drill.act, work, rounds, f"{name} {seed}")
        runs = len(work.books.entries) + work.elsewhere
        return Outcome(name, rounds, runs, time.monotonic() - started, wrong)
