"""Nodes are made for runs that wait and removed when idle, within the bounds, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.autoscale import TRIES, Actions, Config, admit, backoff_s, decide, reach
from wherry.core.nodes import NodeState, NodeView, busy, by_state, counts
from wherry.core.scheduling import Job

NOW, IDLE_S = 10_000.0, 120.0


def jobs(*sizes: int) -> list[Job]:
    return [Job(f"run-{n}", size, 0, n) for n, size in enumerate(sizes)]


def node(name: str, state: str, age: float = 0.0, tries: int = 0) -> NodeView:
    since = NOW - age
    return NodeView(
        name,
        NodeState(state),
        since if state == "idle" else None,
        tries,
        since,
        f"run-of-{name}" if state == "running" else None,
    )


def many(state: str, count: int, age: float = 0.0, tries: int = 0) -> list[NodeView]:
    return [node(f"{state}-{n}", state, age, tries) for n in range(count)]


def config(least: int, most: int) -> Config:
    return Config(least, most, IDLE_S)


def test_nothing_runs_at_night() -> None:
    assert decide([], [], config(0, 10), NOW) == Actions()
    old = many("idle", 3, age=IDLE_S)
    assert sorted(decide([], old, config(0, 10), NOW).remove) == [each.id for each in old]


def test_runs_that_wait_get_nodes_and_those_on_their_way_are_counted() -> None:
    assert decide(jobs(1, 2, 1), [], config(0, 10), NOW).make == 4
    assert decide(jobs(1, 2, 1), many("preparing", 3), config(0, 10), NOW).make == 1
    assert decide(jobs(1, 2, 1), many("preparing", 4), config(0, 10), NOW).make == 0
    assert decide(jobs(1), many("idle", 1), config(0, 10), NOW) == Actions()


def test_no_node_is_made_that_a_waiting_run_cannot_use_yet() -> None:
    """A run of 4 waits for the busy two: two idle ones beside them would help nobody."""
    assert decide(jobs(4), many("running", 2), config(0, 4), NOW).make == 0
    assert decide(jobs(4), many("idle", 2), config(0, 4), NOW).make == 2


def test_idle_nodes_are_kept_for_the_run_that_waits_for_more() -> None:
    nodes = [*many("running", 2), *many("idle", 2, age=1e6)]
    assert decide(jobs(4), nodes, config(0, 4), NOW) == Actions()
    assert len(decide(jobs(3), nodes, config(0, 4), NOW).remove) == 0
    assert len(decide([], nodes, config(0, 4), NOW).remove) == 2


def test_the_minimum_is_kept_and_made() -> None:
    assert len(decide([], many("idle", 3, age=1e6), config(2, 4), NOW).remove) == 1
    assert decide([], many("idle", 1), config(3, 4), NOW).make == 2
    assert decide([], many("leaving", 2), config(3, 4), NOW).make == 2


def test_the_longest_idle_leaves_first_and_the_last_used_is_taken_first() -> None:
    nodes = [node("a", "idle", 500), node("b", "idle", 900), node("c", "idle", 10)]
    assert list(decide([], nodes, config(2, 4), NOW).remove) == ["b"]
    assert admit(jobs(1), nodes, config(0, 4), NOW).starts == (("run-0", ("c",)),)


def test_a_lowered_limit_takes_what_is_not_in_use_and_waits_for_the_rest() -> None:
    nodes = [*many("running", 2), *many("idle", 2), *many("preparing", 1), *many("unusable", 1)]
    assert list(decide(jobs(1), nodes, config(0, 5), NOW).remove) == ["unusable-0"]
    assert len(decide(jobs(1), nodes, config(0, 3), NOW).remove) == 3
    actions = decide(jobs(1), nodes, config(0, 1), NOW)
    assert {each.split("-")[0] for each in actions.remove} == {"idle", "preparing", "unusable"}
    assert (actions.make, actions.retry) == (0, ())
    assert decide(jobs(1), many("running", 3), config(0, 1), NOW) == Actions()


def test_a_node_that_does_not_start_holds_its_place_and_is_tried_again_later() -> None:
    failed = many("unusable", 2, age=backoff_s(TRIES) - 1, tries=TRIES)
    assert decide(jobs(1, 1), failed, config(0, 2), NOW) == Actions()
    failed = many("unusable", 2, age=backoff_s(TRIES), tries=TRIES)
    assert list(decide(jobs(1), failed, config(0, 2), NOW).retry) == ["unusable-0"]
    assert decide(jobs(1), failed, config(0, 3), NOW).make == 1
    assert list(decide([], failed, config(1, 2), NOW).retry) == ["unusable-0"]


def test_nobody_is_held_back_by_a_node_that_does_not_start() -> None:
    """A run of 2 cannot have them for now; the run of 1 behind it starts."""
    nodes = [*many("idle", 1), *many("unusable", 1, tries=TRIES)]
    assert [run for run, _ in admit(jobs(2, 1), nodes, config(0, 2), NOW).starts] == ["run-1"]


def test_one_that_nobody_wants_is_let_go() -> None:
    assert decide([], many("unusable", 1, age=IDLE_S - 1), config(0, 2), NOW) == Actions()
    assert decide([], many("unusable", 1, age=IDLE_S), config(0, 2), NOW).remove == ("unusable-0",)


def test_the_pause_grows_and_ends_growing() -> None:
    pauses = [backoff_s(tries) for tries in range(1, 2000)]
    assert pauses[:3] == [10, 20, 40]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1800


def test_what_a_cluster_can_have_as_things_stand() -> None:
    nodes = [*many("running", 1), *many("leaving", 1), *many("unusable", 1), *many("preempted", 1)]
    assert reach(nodes, config(0, 6), NOW) == 4
    assert reach(nodes, config(0, 6), NOW, 1) == 3
    assert reach(nodes, config(0, 6), NOW + 1e6, 1) == 4
    assert reach(many("running", 4), config(0, 2), NOW) == 2


def test_a_site_with_less_room_than_the_limit() -> None:
    assert decide(jobs(1, 1, 1), [], config(0, 10), NOW, 2).make == 2
    assert decide(jobs(1, 1, 1), [], config(0, 10), NOW, 0).make == 0
    assert decide(jobs(4, 1), many("idle", 1), config(0, 10), NOW, 1).make == 0
    assert decide(jobs(4, 1), many("idle", 1), config(0, 10), NOW, 3).make == 3


def test_a_leaving_node_counts_until_it_is_gone_and_its_place_is_counted_upon() -> None:
    nodes = [*many("leaving", 2), *many("idle", 2)]
    assert decide(jobs(4), nodes, config(0, 4), NOW).make == 0
    assert admit(jobs(4, 1), nodes, config(0, 4), NOW).starts == ()


def test_preempted_nodes_are_replaced_once_they_are_gone() -> None:
    assert decide(jobs(2), many("preempted", 2), config(0, 2), NOW).make == 0
    assert decide(jobs(2), many("preempted", 1), config(0, 3), NOW).make == 2


def test_a_clock_that_was_set_back_keeps_no_node() -> None:
    """A moment ahead is nothing; an hour ahead would keep a node for an hour too long."""
    assert decide([], many("idle", 1, age=-1), config(0, 2), NOW) == Actions()
    assert decide([], many("idle", 1, age=-3600), config(0, 2), NOW).remove == ("idle-0",)
    failed = many("unusable", 1, age=-3600, tries=TRIES)
    assert decide(jobs(1), failed, config(0, 1), NOW).retry == ("unusable-0",)


def test_a_stopped_cluster_lets_its_runs_end() -> None:
    nodes = [*many("running", 1), *many("idle", 1), *many("preparing", 1)]
    actions = decide(jobs(1), nodes, config(2, 0), NOW)
    assert (actions.make, sorted(actions.remove)) == (0, ["idle-0", "preparing-0"])
    assert admit(jobs(1), nodes, config(2, 0), NOW).starts == ()


def test_nodes_are_counted_as_azure_shows_them() -> None:
    nodes = [*many("running", 2), *many("idle", 1)]
    assert counts(nodes) == {
        "preparing": 0,
        "idle": 1,
        "running": 2,
        "unusable": 0,
        "leaving": 0,
        "preempted": 0,
    }


def test_the_nodes_of_one_run_are_busy_together() -> None:
    both = [replace(each, run_id="x", until=NOW + 5) for each in many("running", 2)]
    (found,) = busy(both)
    assert (found.run_id, list(found.node_ids), found.until) == ("x", [n.id for n in both], NOW + 5)
    (found,) = busy([both[0], replace(both[1], until=None)])
    assert found.until is None


def test_what_is_done_is_told() -> None:
    assert Actions(2, ("a",), ("b",)).why == "2 more wanted, 1 no longer wanted, 1 tried again"
    assert Actions().why == ""


KINDS = [
    ("idle", 0.0),
    ("idle", 1e6),
    ("running", 0.0),
    ("preparing", 0.0),
    ("unusable", 0.0),
    ("unusable", 1e6),
    ("leaving", 0.0),
    ("preempted", 0.0),
]
QUEUES = [(), (1,), (2,), (3,), (1, 2), (2, 1), (3, 1), (1, 1, 1), (4, 1)]


def clusters() -> Iterator[list[NodeView]]:
    for size in range(5):
        for kinds in combinations_with_replacement(KINDS, size):
            yield [node(f"n{n}", state, age, TRIES) for n, (state, age) in enumerate(kinds)]


@pytest.mark.parametrize("room", [None, 0, 1])
def test_every_small_cluster(room: int | None) -> None:
    bounds = [config(0, 3), config(1, 2), config(2, 5)]
    for nodes, sizes, limits in product(clusters(), QUEUES, bounds):
        check(jobs(*sizes), nodes, limits, room)


def check(queue: list[Job], nodes: list[NodeView], limits: Config, room: int | None) -> None:
    actions = decide(queue, nodes, limits, NOW, room)
    by_id = {each.id: each for each in nodes}
    assert actions.make == 0 or len(nodes) + actions.make <= limits.max_nodes
    assert room is None or actions.make <= room
    assert len(set(actions.remove)) == len(actions.remove)
    removed = {by_id[each].state for each in actions.remove}
    assert removed <= {NodeState.IDLE, NodeState.PREPARING, NodeState.UNUSABLE}
    assert {by_id[each].state for each in actions.retry} <= {NodeState.UNUSABLE}
    assert not set(actions.retry) & set(actions.remove)
    assert not (
        actions.make and set(actions.remove) & {each.id for each in by_state(nodes)[NodeState.IDLE]}
    )
    given = {each for _, held in admit(queue, nodes, limits, NOW, room).starts for each in held}
    assert not given & set(actions.remove)
    left = [each for each in nodes if each.id not in actions.remove]
    assert usable(left) >= min(usable(nodes), limits.min_nodes, limits.max_nodes)


def usable(nodes: Sequence[NodeView]) -> int:
    states = (NodeState.IDLE, NodeState.RUNNING, NodeState.PREPARING)
    return sum(each.state in states for each in nodes)


def apply(nodes: Sequence[NodeView], actions: Actions, serial: int) -> list[NodeView]:
    """The site does as it is told, at once."""
    stay = [each for each in nodes if each.id not in actions.remove]
    stay = [node(each.id, "idle") if each.id in actions.retry else each for each in stay]
    return stay + [node(f"made-{serial}-{n}", "idle") for n in range(actions.make)]


states = st.sampled_from(KINDS)


@given(
    st.lists(states, max_size=8),
    st.lists(st.integers(1, 5), max_size=6),
    st.integers(0, 3),
    st.integers(0, 8),
    st.none() | st.integers(0, 4),
)
def test_the_bounds_hold_and_it_settles(
    kinds: list[tuple[str, float]], sizes: list[int], least: int, most: int, room: int | None
) -> None:
    nodes = [node(f"n{n}", state, age, TRIES) for n, (state, age) in enumerate(kinds)]
    limits, queue = config(least, most), jobs(*sizes)
    check(queue, nodes, limits, room)
    made = False
    for serial in range(10):
        actions = decide(queue, nodes, limits, NOW, room)
        if actions == Actions():
            break
        assert not (
            made and set(actions.remove) & {each.id for each in by_state(nodes)[NodeState.IDLE]}
        )
        made = made or actions.make > 0
        nodes = apply(nodes, actions, serial)
        room = None if room is None else room - actions.make + len(actions.remove)
    else:
        pytest.fail("it never comes to rest")


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 6))
def test_every_run_that_fits_the_limit_is_started(sizes: list[int], most: int) -> None:
    """From nothing, with runs that end after one round: nobody is left."""
    queue = [job for job in jobs(*sizes) if job.node_count <= most]
    nodes: list[NodeView] = []
    for serial in range(20):
        for run_id, held in admit(queue, nodes, config(0, most), NOW).starts:
            queue = [job for job in queue if job.run_id != run_id]
            nodes = [
                replace(each, state=NodeState.RUNNING, run_id=run_id) if each.id in held else each
                for each in nodes
            ]
        if not queue:
            return
        nodes = apply(nodes, decide(queue, nodes, config(0, most), NOW), serial)
        assert len(nodes) <= most
        if serial % 2:
            nodes = [
                node(each.id, "idle") if each.state is NodeState.RUNNING else each for each in nodes
            ]
    assert queue == []
