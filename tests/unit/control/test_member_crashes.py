"""The server dies between steps of its loop while a run has two nodes; the next one goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.control.cluster_world import ClusterWorld, dies_everywhere
from tests.unit.control.test_reconciler import Clock, clock
from wherry.control import evictions
from wherry.core.lifecycle import ExitRecord

__all__ = ["clock"]

ENDED = ("Completed", "Canceled", "Failed")
EVERY = 3
Life = Callable[[ClusterWorld, str], None]


def completed(world: ClusterWorld, run_id: str) -> None:
    world.finish(run_id)


def failed(world: ClusterWorld, run_id: str) -> None:
    """The second node fails of itself, the first ends when it is asked to."""
    attempt = world.attempts(run_id)[-1]
    known = world.backend.attempts.get(attempt.id)
    if known is not None and known.exit is None:
        world.backend.end(attempt.id, ExitRecord(exit_code=3))


def lost(world: ClusterWorld, run_id: str) -> None:
    """One ends well, of the other nothing is found."""
    first, second = (world.backend.attempts.get(each.id) for each in world.attempts(run_id))
    if first is not None and first.exit is None:
        world.backend.end(first.launch.attempt_id)
    if second is not None and second.exit is None:
        world.backend.lose(second.launch.attempt_id)


def evicted(world: ClusterWorld, run_id: str) -> None:
    """A node is taken away once; the second attempt is an ordinary one."""
    if len(world.attempts(run_id)) > 2:
        world.finish(run_id)
    elif all(each.stop_reason is None for each in world.attempts(run_id)):
        busy = [each.node_id for each in world.attempts(run_id) if each.ended_at is None]
        evictions.evict(world.plane, "w", "cpu", busy[0])


LIVES: dict[Life, str] = {
    completed: "Completed",
    failed: "Failed",
    lost: "Failed",
    evicted: "Completed",
}


@pytest.mark.parametrize("life", LIVES, ids=lambda life: str(life.__name__))
def test_whenever_the_server_dies_all_nodes_end_once_and_right(
    tmp_path: Path, clock: Clock, life: Life
) -> None:
    world = ClusterWorld(tmp_path, clock, vm_priority="lowpriority", idle_seconds=600)
    made: list[str] = []

    def ended() -> None:
        assert world.status(made[-1]) == LIVES[life]
        tries = world.attempts(made[-1])
        assert len(tries) == (4 if life is evicted else 2)
        assert all(world.backend.starts.get(each.id, 0) == 1 for each in tries)
        assert all(each.released_at is not None for each in tries)

    dies_everywhere(
        world,
        lambda: live(world, made[-1], life),
        ended,
        begin=lambda: made.append(world.submit(node_count=2)),
        every=EVERY,
        least=10,
    )


def live(world: ClusterWorld, run_id: str, life: Life) -> None:
    for _ in range(30):
        world.tick(5)
        if world.status(run_id) in ENDED:
            if all(each.released_at is not None for each in world.attempts(run_id)):
                return
        elif world.status(run_id) != "Queued":
            life(world, run_id)
