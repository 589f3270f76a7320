"""Drills on clusters whose nodes are containers, of an engine that can be killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import podman
from tests.podman import BASE, Podman

from chaos import clusters
from chaos.books import WORKSPACE
from chaos.workload import Workload, insist
from chaos.world import Stage, Unavailable, wait_until
from wherry import Workspace

_SITE = "boxes"
_IMAGE = "localhost/wherry-drill:latest"
_AWAY_S = ((0, 1), (1, 3), (60, 90), (10, 30))


@contextmanager
def engine(folder: Path) -> Iterator[Stage]:
    """A podman, with an image in which scripts know the ledger."""
    if podman.missing():
        raise Unavailable(podman.missing())
    with podman.serving() as found:
        text = f"FROM {BASE}\nENV CHAOS_LEDGER={folder / 'ledger'}\n"
        found("build", "--tag", _IMAGE, "-", data=text.encode())
        yield Stage(engine=found)


@contextmanager
def boxes(work: Workload) -> Iterator[Podman]:
    """A cluster of containers, to which runs go. At last none of them is there any more."""
    engine, ledger = work.world.engine, work.world.ledger
    assert engine is not None
    config = {
        "engine": engine.host,
        "image": _IMAGE,
        "network": "host",
        "cores": 2,
        "memory": "4GiB",
        "volumes": [f"{ledger}:{ledger}"],
    }
    client = Workspace.get(WORKSPACE)._client
    client.request("PUT", f"/sites/{_SITE}", json={"kind": "container", "config": config})
    with clusters.cluster(work, location=_SITE):
        yield engine
    insist(lambda: client.request("DELETE", f"/sites/{_SITE}"))
    with suppress(TimeoutError):
        wait_until(lambda: not _left(engine), "the end of containers and volumes")
    assert not _left(engine), f"the engine has {_left(engine)}"


def _left(engine: Podman) -> str:
    """Containers, those too that podman itself has forgotten, and volumes."""
    containers = engine("ps", "--all", "--external", "--format", "{{.Names}} {{.Status}}")
    return f"{containers} {engine('volume', 'ls', '--quiet')}".strip()


def kill_engine(work: Workload, rounds: int) -> None:
    """Its service dies while nodes are made, used or removed, and comes back: runs go on."""
    with boxes(work) as engine:
        for number in range(rounds):
            seconds = work.chance.uniform(*_AWAY_S[number % len(_AWAY_S)])
            work.submit(count=30, pause_s=0.05)
            work.submit(count=20, pause_s=seconds / 15)
            time.sleep(work.chance.uniform(0, 6))
            engine.kill()
            time.sleep(seconds)
            engine.serve()
            work.settle(240 + 2 * seconds)
