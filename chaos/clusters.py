"""Drills on clusters whose nodes are slots of this machine: made and removed all the time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chaos.books import WORKSPACE
from chaos.watch import Watch
from chaos.workload import Workload, insist
from chaos.world import Stage, send, wait_until
from wherry import MpiConfiguration, Workspace
from wherry.compute import AmlCompute, ComputeTarget
from wherry.core.errors import WherryError
from wherry.core.targets import key

_SLOTS = 4
_GROUPS = Path("/sys/fs/cgroup")
_BREATH_S = 300.0


@contextmanager
def slots(_folder: Path) -> Iterator[Stage]:
    """A machine that counts as one of a few CPUs, whatever it has."""
    yield Stage({"WHERRY_LOCAL_CPUS": str(_SLOTS)})


@contextmanager
def cluster(work: Workload, name: str = "pool", **wanted: Any) -> Iterator[Watch]:
    """Runs go to it. At last its nodes are gone by themselves, and then it is deleted."""
    asked = {"vm_size": "local-1", "max_nodes": 2, "idle_seconds_before_scaledown": 1, **wanted}
    most = {key(WORKSPACE, name): int(asked["max_nodes"])}
    insist(lambda: create(name, asked))
    work.target = name
    with Watch(work.world.home / "wherry.db", most) as watch:
        yield watch
        work.settle()
        work.world.start_server()
        _wait_until_empty(watch, name)
        insist(lambda: found(name).delete())
        wait_until(lambda: name not in insist(_targets), f"the end of cluster {name}")
    left = [*watch.wrong, *_groups(watch.ever)]
    assert not left, "; ".join(sorted(left))


def create(name: str, wanted: dict[str, Any]) -> ComputeTarget:
    config = AmlCompute.provisioning_configuration(**wanted)
    return ComputeTarget.create(Workspace.get(WORKSPACE), name, config)


def found(name: str) -> AmlCompute:
    target = ComputeTarget(Workspace.get(WORKSPACE), name)
    assert isinstance(target, AmlCompute)
    return target


def kill_scaling(work: Workload, rounds: int, **wanted: Any) -> None:
    """The server dies while nodes are made, used and removed."""
    with cluster(work, **{"max_nodes": 3, **wanted}):
        for _ in range(rounds):
            for _ in range(work.chance.randint(0, 3)):
                work.submit(count=work.chance.randint(1, 8))
            time.sleep(work.chance.uniform(0, 2.5))
            send(work.world.server_pid(), signal.SIGKILL)
            insist(_targets)


def race_removal(work: Workload, rounds: int) -> None:
    """Runs come just when the nodes that would take them go; limits change meanwhile."""
    with cluster(work, max_nodes=2) as watch:
        for _ in range(rounds):
            work.submit(count=1)
            work.submit_brief()
            work.settle()
            if work.chance.random() < 0.5:
                wait_until(lambda: _leaving(watch), "a node that goes")
            else:
                time.sleep(work.chance.uniform(0, 2.5))
            work.submit(count=1)
            if work.chance.random() < 0.3:
                insist(lambda: found("pool").update(max_nodes=work.chance.choice((1, 2))))


def exhaust(work: Workload, rounds: int, nodes_in_all: int = _SLOTS, **wanted: Any) -> None:
    """Two clusters want more nodes than there are: all runs have their turn."""
    wanted = {"max_nodes": nodes_in_all, **wanted}
    with cluster(work, "first", **wanted), cluster(work, "second", **wanted):
        for _ in range(rounds):
            for _ in range(work.chance.randint(nodes_in_all, 3 * nodes_in_all)):
                work.target = work.chance.choice(("first", "second"))
                nodes = work.chance.choice((1, 1, 1, 2, nodes_in_all))
                together = MpiConfiguration(node_count=nodes)
                if nodes == 1:
                    work.submit(count=3)
                else:
                    entry = work.submit(count=3, distributed_job_config=together)[1]
                    entry.nodes = nodes
            work.settle(600)


def kill_node(work: Workload, rounds: int) -> None:
    """Whatever runs on a node is gone at once; the node itself goes on to be one."""
    with cluster(work):
        for _ in range(rounds):
            for entry in [work.submit(count=20, pause_s=0.03)[1] for _ in range(2)]:
                entry.may_be_lost = True
            _kill_one(work)
            work.settle()


def kill_one_of_two(work: Workload, rounds: int) -> None:
    """Of two nodes of a run one dies: the run ends, says which, and the other one is free."""
    with cluster(work):
        for _ in range(rounds):
            job = MpiConfiguration(node_count=2)
            run, entry = work.submit(count=60, pause_s=0.05, distributed_job_config=job)
            entry.nodes, entry.may_be_lost = 2, True
            wait_until(lambda: len(work.world.runner_pids()) == 2, "the start of both nodes")
            _kill_one(work)
            work.settle()
            record = insist(run.get_details)
            told = str((record.get("error") or {}).get("message"))
            assert record["status"] != "Failed" or told.startswith("node "), told


def evict(work: Workload, rounds: int) -> None:
    """Nodes of low priority are taken away, by hand and by a cluster that is dedicated."""
    low = {"max_nodes": _SLOTS, "vm_priority": "lowpriority"}
    with cluster(work, "first"), cluster(work, "low", **low):
        for _ in range(rounds):
            work.target = "low"
            for _ in range(_SLOTS):
                work.submit(count=80, pause_s=0.05, evictions=3)
            for _ in range(2):
                time.sleep(work.chance.uniform(0, 4))
                with suppress(WherryError):  # nobody is there yet
                    found("low").simulate_eviction()
            work.target = "first"
            work.submit(count=3)
            work.settle()


def _kill_one(work: Workload) -> None:
    wait_until(work.world.runner_pids, "the start of a runner")
    time.sleep(work.chance.uniform(0.1, 1.5))
    runners = work.world.runner_pids()
    for pid in work.world.group(work.chance.choice(runners)) if runners else []:
        send(pid, signal.SIGKILL)


def _leaving(watch: Watch) -> bool:
    return any(node["state"] == "leaving" for node in watch.present()) or not watch.present()


def _wait_until_empty(watch: Watch, name: str) -> None:
    try:
        wait_until(lambda: not watch.present(), "removing all nodes", _BREATH_S)
    except TimeoutError as error:
        told = [f"{each['name']} {each['state']} {each['reason']}" for each in watch.present()]
        problem = insist(lambda: found(name)._record).get("problem")
        raise TimeoutError(f"{error}: {told}; {problem}") from None


def _targets() -> list[str]:
    return [str(name) for name in Workspace.get(WORKSPACE).compute_targets]


def _groups(node_ids: set[str]) -> list[str]:
    """Control groups of nodes that are gone."""
    with suppress(OSError):
        found = [path for path in _GROUPS.rglob("wherry-*") if path.name[-36:] in node_ids]
        return [f"a control group is left: {path}" for path in found]
    return []
