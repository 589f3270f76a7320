"""The week of ``make simulate`` on a small cluster; the world itself checks every bound."""

from __future__ import annotations

import pytest
from benchmarks.simulation import DAY_S, HOUR_S, Plan, World

from wherry.core.nodes import NodeState


@pytest.mark.parametrize("seed", [1, 2])
def test_a_week_with_everything_in_it(seed: int) -> None:
    plan = Plan(nodes=40, runs=1500, days=6.0, seed=seed, step_s=30.0)
    found = World(plan).play()
    waits = [wait for waits in found.waits.values() for wait in waits]
    assert found.most <= plan.nodes
    assert len(waits) >= plan.runs
    assert max(waits) < DAY_S
    assert found.ended < plan.days * DAY_S + 24 * HOUR_S
    assert {"failed", "died", "evicted", "left"} <= set(found.events)
    assert found.clairvoyant_s() <= sum(found.seconds.values()) - found.seconds[NodeState.RUNNING]


@pytest.mark.parametrize("slack", [1.0, 4.0])
def test_runs_with_limits_fill_gaps_and_nobody_starts_later_than_promised(slack: float) -> None:
    """With no slack every run takes as long as it may: the world sees who is late."""
    found = World(Plan(40, 2000, days=2.0, limited=1.0, slack=slack, step_s=30.0)).play()
    assert found.filled > 5
    assert found.promises > 10


def test_nothing_is_left_to_chance() -> None:
    plan = Plan(nodes=10, runs=100, days=1.0, step_s=60.0)
    one, other = World(plan).play(), World(plan).play()
    assert (one.waits, one.seconds, one.events) == (other.waits, other.seconds, other.events)
