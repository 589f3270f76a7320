"""A cluster on a site that is only thought of, with a server that may die at any step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from tests.unit.control.crashing import Crash, CrashingDriver, CrashingWorld, Fuse, fused
from tests.unit.control.test_reconciler import Clock
from wherry.control import computes
from wherry.control.clusters import Cluster
from wherry.control.reconciler import Reconciler
from wherry.control.workers import AtOnce
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.core.vm_sizes import Size
from wherry.drivers.base import Driver
from wherry.drivers.sites import Machine
from wherry.store import nodes

T = TypeVar("T")
TARGET = "w/cpu"
KIND = {"kind": "cluster"}
SIZE = Size("small", 2.0, 1 << 30, 0, price_per_hour=3.6)


class MemorySite:
    """Machines that are entries of ``there``; ``made`` counts how often each was really made."""

    def __init__(self, world: ClusterWorld, fuse: Fuse) -> None:
        self._world = world
        self._fuse = fuse

    def sizes(self) -> Sequence[Size]:
        return [SIZE]

    def room(self, size: Size) -> int:
        del size
        return self._world.capacity - len(self._world.there)

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        del size
        return len(promised)

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        del size
        if home:
            self._world.homes.add(home)
        return self._step(lambda: self._made(node_id))

    def forget(self, home: str) -> None:
        self._world.homes.discard(home)

    def remove(self, node_id: str) -> None:
        self._step(lambda: self._world.there.pop(node_id, None))

    def machines(self) -> Mapping[str, Machine]:
        return dict(self._world.there)

    def driver(self, node_id: str, machine: Machine) -> Driver:
        del node_id, machine
        return self._world.driver

    def _made(self, node_id: str) -> Machine:
        world = self._world
        if world.broken:
            raise TargetUnavailableError(world.broken)
        if node_id not in world.there:
            if len(world.there) >= world.capacity:
                raise TargetUnavailableError("the site is full")
            world.made[node_id] = world.made.get(node_id, 0) + 1
            name = f"m{len(world.made)}"
            world.there[node_id] = Machine(
                name, Resources(2, 1 << 30, 0), (), {"address": name, "port": 22}
            )
        return world.there[node_id]

    def _step(self, call: Callable[[], T]) -> T:
        return fused(call, self._fuse)()


def elsewhere(world: ClusterWorld) -> type[CrashingDriver]:
    """Have its nodes be other machines, by a class of driver of their own.

    Whether a class keeps a protocol is asked once: one that is changed back would be taken for what
    it was.
    """

    class Elsewhere(CrashingDriver):
        def reach(self, node: str = "") -> None:
            del node

    world.driver.__class__ = Elsewhere
    world.kind = Elsewhere
    return Elsewhere


class ClusterWorld(CrashingWorld):
    """``config`` is the cluster's; it is made by the first server."""

    type = "AmlCompute"

    def __init__(self, folder: Path, clock: Clock, **config: Any) -> None:
        self.kind: type[CrashingDriver] = CrashingDriver
        self.there: dict[str, Machine] = {}
        self.made: dict[str, int] = {}
        self.homes: set[str] = set()
        self.capacity = 10
        self.broken = ""
        self._created = False
        self._config = {"max_nodes": 2, "idle_seconds": 60, **config}
        super().__init__(folder, clock)

    def restart(self, driver: Driver | None = None, fuse: Fuse | None = None) -> None:
        super().restart(driver, None)
        fuse = fuse or Fuse(0)
        self.fuse = fuse
        self.driver = self.kind(self.backend, fuse, self._pipe[0])
        if not self._created:
            self.create()
        cluster = Cluster(self.plane, TARGET, self.site(fuse), AtOnce())
        self.reconciler = Reconciler(self.plane, TARGET, cluster.driver, cluster)
        if fuse.left:
            assert self._database is not None
            self._fuse_transactions(self._database, fuse)

    def site(self, fuse: Fuse) -> MemorySite:
        return MemorySite(self, fuse)

    def create(self) -> None:
        self._created = True
        computes.put(self.plane, "w", "cpu", {"type": self.type, "config": self._config, **KIND})

    def another(self, target: str) -> Reconciler:
        """The loop of a second cluster on the same site."""
        cluster = Cluster(self.plane, target, MemorySite(self, self.fuse), AtOnce())
        return Reconciler(self.plane, target, cluster.driver, cluster)

    def submit(self, **fields: Any) -> str:
        return super().submit(**{"target": "cpu", **fields})

    def nodes(self) -> list[Any]:
        with self.plane.database.read() as connection:
            return nodes.present(connection, TARGET)

    def show(self) -> dict[str, Any]:
        return computes.show(self.plane, "w", "cpu")

    def finish(self, run_id: str) -> None:
        """Its command ends well, wherever it was started."""
        for attempt in self.attempts(run_id):
            known = self.backend.attempts.get(attempt.id)
            if known is not None and known.exit is None:
                self.backend.end(attempt.id)


def dies_everywhere(
    world: ClusterWorld,
    act: Callable[[], object],
    check: Callable[[], object],
    *,
    begin: Callable[[], object] = lambda: None,
    again: Callable[[], object] = lambda: None,
    every: int = 1,
    least: int,
) -> None:
    """The server dies at the first step of what it does, then at a later one, and so on; the next
    one does the same. Each time ``begin`` comes before, and ``again`` after what is to be found.
    """
    for point in count(1, every):
        begin()
        fuse = Fuse(point)
        world.restart(fuse=fuse)
        try:
            act()
        except Crash:
            world.restart()
            act()
        fuse.left = 0
        check()
        if not fuse.blown:
            break
        world.restart()
        again()
    assert point > least
    world.close()
