"""Two clusters on a site that is too small for both take turns."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.planes import make_plane
from tests.unit.control.cluster_world import ClusterWorld
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import computes
from wherry.control.reconciler import Reconciler
from wherry.control.reports import report
from wherry.control.site_room import SiteRoom
from wherry.core.resources import Resources
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.drivers.site_local import LocalSite

__all__ = ["clock"]


class Rivals(ClusterWorld):
    """``cpu`` and ``other`` on a site with one machine, or as many as are said."""

    def __init__(self, folder: Path, clock: Clock, capacity: int = 1, **config: int) -> None:
        super().__init__(folder, clock, max_nodes=4, **config)
        self.capacity = capacity
        made = {"max_nodes": 4, "idle_seconds": 60}
        computes.put(self.plane, "w", "other", {"type": "AmlCompute", "config": made})
        self.rival: Reconciler = self.another("w/other")

    def both(self, seconds: float = 3.0) -> None:
        self.tick(seconds)
        self.rival.tick()
        assert len(self.there) <= self.capacity

    def run_all(self, made: list[str], passes: int) -> list[str]:
        """In which order they start, each taking some passes."""
        order: list[str] = []
        for _ in range(passes):
            self.both()
            for run_id in made:
                if self.status(run_id) == "Starting":
                    order += [run_id] if run_id not in order else []
                    self.finish(run_id)
        return order


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> Rivals:
    return Rivals(tmp_path, clock)


def test_the_run_that_has_waited_for_longer_gets_the_node_of_another_cluster(
    world: Rivals,
) -> None:
    first = world.submit()
    for _ in range(3):
        world.both()
    assert world.status(first) == "Starting"
    theirs = world.submit(target="other")
    later = [world.submit() for _ in range(3)]
    world.begin(first)
    for _ in range(12):
        world.both()
        report(world.plane, world.attempt(first).id, {"stage": "running"})
    world.finish(first)
    assert world.run_all([theirs, *later], 60) == [theirs, *later]
    assert set(world.backend.starts.values()) == {1}


def test_an_idle_node_goes_at_once_where_another_cluster_lacks_it(world: Rivals) -> None:
    first = world.submit()
    for _ in range(3):
        world.both()
    world.finish(first)
    assert world.settle(first) == "Completed"
    assert len(world.nodes()) == 1
    theirs = world.submit(target="other")
    for _ in range(10):
        world.both(1)
        if world.status(theirs) == "Starting":
            break
    assert world.status(theirs) == "Starting"
    assert world.nodes() == []


def test_a_node_is_not_given_back_for_a_larger_one_that_has_no_room_in_its_place(
    tmp_path: Path,
) -> None:
    plane = make_plane(tmp_path, {"local": MemoryDriver(MemoryBackend())})
    site = LocalSite(tmp_path / "nodes", Resources(4, 4 << 30, 0))
    small, large = (next(s for s in site.sizes() if s.name == f"local-{n}") for n in (1, 2))
    node = SimpleNamespace(size="local-1", cpu=1.0, memory_bytes=1 << 30)
    assert not SiteRoom(plane, site, large).fits_in_place_of(node)  # type: ignore[arg-type]
    assert SiteRoom(plane, site, small).fits_in_place_of(node)  # type: ignore[arg-type]
    node.size = "local-2"
    assert SiteRoom(plane, site, small).fits_in_place_of(node)  # type: ignore[arg-type]
    plane.close()


def test_the_minimum_of_a_cluster_is_not_given_away(tmp_path: Path, clock: Clock) -> None:
    world = Rivals(tmp_path, clock, min_nodes=1)
    world.both()
    theirs = world.submit(target="other")
    for _ in range(30):
        world.both()
    assert len(world.nodes()) == 1
    assert world.status(theirs) == "Queued"


def test_a_run_of_several_nodes_is_given_them_all_or_none(tmp_path: Path, clock: Clock) -> None:
    world = Rivals(tmp_path, clock, capacity=2, min_nodes=0)
    made = [world.submit(), world.submit()]
    for _ in range(3):
        world.both()
    theirs = world.submit(target="other", node_count=2)
    world.finish(made[0])
    assert world.settle(made[0]) == "Completed"
    for _ in range(5):
        world.both(1)
    assert len(world.nodes()) == 2
    world.finish(made[1])
    for _ in range(20):
        world.both(1)
    assert world.status(theirs) == "Starting"
    assert world.nodes() == []
