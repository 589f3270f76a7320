"""Whole nodes or none, in order; and whoever passes another does not delay it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.scheduling import Busy, Job, Schedule, in_order, schedule

NOW = 1000.0


def jobs(*sizes: int, limit_s: float | None = None) -> list[Job]:
    return [Job(f"run-{n}", size, 0, n, limit_s) for n, size in enumerate(sizes)]


def nodes(count: int) -> list[str]:
    return [f"idle-{n}" for n in range(count)]


def running(*sizes: int, until: Sequence[float | None] = ()) -> list[Busy]:
    ends = [*until, *[None] * len(sizes)]
    return [
        Busy([f"busy-{n}-{m}" for m in range(size)], ends[n], f"old-{n}")
        for n, size in enumerate(sizes)
    ]


def started(found: Schedule) -> list[str]:
    return [run_id for run_id, _ in found.starts]


def test_two_runs_are_never_half_placed() -> None:
    found = schedule(jobs(2, 2), nodes(3), [], 3, NOW)
    assert found.starts == (("run-0", ("idle-0", "idle-1")),)
    assert found.held_for == jobs(2, 2)[1]


def test_priority_goes_before_time_and_ties_stay_as_they_came() -> None:
    queue = [Job("a", 1, 0, 1.0), Job("b", 1, 5, 2.0), Job("c", 1, 5, 2.0), Job("d", 1, 0, 0.5)]
    assert [job.run_id for job in in_order(queue)] == ["b", "c", "d", "a"]


def test_small_runs_do_not_starve_a_large_one() -> None:
    """As the nodes of small runs come free one by one, they are kept for the large one."""
    for idle in range(4):
        found = schedule(jobs(4, 1, 1, 1), nodes(idle), running(*[1] * (4 - idle)), 4, NOW)
        assert started(found) == []
    assert started(schedule(jobs(4, 1, 1, 1), nodes(4), [], 4, NOW)) == ["run-0"]


def test_what_nobody_ahead_can_need_is_given_away() -> None:
    """When the run of 4 nodes ends there is one more than the head needs, whenever that is."""
    found = schedule(jobs(4, 1, 1), nodes(1), running(4), 5, NOW)
    assert started(found) == ["run-1"]
    assert found.held_for is not None
    assert found.held_for.run_id == "run-0"


def test_a_node_that_may_yet_be_made_is_counted_upon() -> None:
    assert started(schedule(jobs(4, 1), nodes(1), running(4), 8, NOW)) == []


def test_the_second_that_waits_is_not_delayed_either() -> None:
    """One spare node for the head, none for the one behind it."""
    assert started(schedule(jobs(4, 1, 1), nodes(1), running(4), 5, NOW)) == ["run-1"]
    assert started(schedule(jobs(4, 2, 1), nodes(1), running(4, 1), 6, NOW)) == []


def test_a_run_that_is_over_in_time_passes() -> None:
    busy = running(1, until=[NOW + 100])
    short, long = Job("short", 1, 0, 1, 100.0), Job("long", 1, 0, 1, 101.0)
    assert started(schedule([Job("head", 2), short], nodes(1), busy, 2, NOW)) == ["short"]
    assert started(schedule([Job("head", 2), long], nodes(1), busy, 2, NOW)) == []
    assert started(schedule([Job("head", 2), Job("open", 1)], nodes(1), busy, 2, NOW)) == []


def test_who_fills_a_gap_is_told_and_so_is_the_end_of_the_gap() -> None:
    busy = running(1, 1, until=[NOW + 100])
    short = Job("short", 1, 0, 1, 100.0)
    found = schedule([Job("head", 3), short], nodes(1), busy, 3, NOW)
    assert (found.filling, found.by) == (("short",), None)
    found = schedule([Job("head", 2), short], nodes(1), busy[:1], 2, NOW)
    assert (found.filling, found.by) == (("short",), NOW + 100)
    found = schedule(jobs(4, 1), nodes(1), running(4, until=[NOW + 7]), 5, NOW)
    assert (started(found), found.filling, found.by) == (["run-1"], (), NOW + 7)


def test_a_gap_is_left_to_a_larger_run_before_that_could_fill_it() -> None:
    busy = running(1, 2, until=[NOW + 100, NOW + 100])
    two, one = Job("two", 2, 0, 1, 50.0), Job("one", 1, 0, 2, 50.0)
    queue = [Job("head", 4), two, one]
    assert started(schedule(queue, nodes(1), busy, 4, NOW)) == []
    assert started(schedule(queue, nodes(2), busy[1:], 4, NOW)) == ["two"]
    late = Job("two", 2, 0, 1, 101.0)
    assert started(schedule([Job("head", 4), late, one], nodes(1), busy, 4, NOW)) == ["one"]


def test_without_a_known_end_there_is_no_promise_to_keep() -> None:
    short = Job("short", 1, 0, 1, 1.0)
    assert started(schedule([Job("head", 2), short], nodes(1), running(1), 2, NOW)) == []
    late = running(1, until=[NOW - 5])
    assert started(schedule([Job("head", 2), short], nodes(1), late, 2, NOW)) == []


def test_a_node_that_may_yet_be_made_leaves_no_time_to_fill() -> None:
    busy, short = running(1, until=[NOW + 100]), Job("short", 1, 0, 1, 10.0)
    assert started(schedule([Job("head", 2), short], nodes(1), busy, 3, NOW)) == []
    assert started(schedule([Job("head", 3), short], nodes(1), busy, 3, NOW)) == ["short"]


def test_a_run_that_can_never_start_holds_nobody_back() -> None:
    found = schedule(jobs(5, 1), nodes(1), [], 4, NOW)
    assert started(found) == ["run-1"]
    assert started(schedule(jobs(4, 1), nodes(1), running(1), 4, NOW, reach=2)) == ["run-1"]


def test_a_lowered_limit_is_kept_though_nodes_are_idle() -> None:
    assert started(schedule(jobs(1, 1), nodes(2), running(2), 3, NOW)) == ["run-0"]
    assert started(schedule(jobs(1), nodes(2), running(2), 2, NOW)) == []


def test_a_long_queue_is_not_read_to_its_end() -> None:
    read = 0

    def queue() -> Iterator[Job]:
        nonlocal read
        for read in range(100_000):
            yield Job(f"run-{read}", 2)

    schedule(queue(), nodes(3), running(1), 4, NOW)
    assert read < 10
    schedule(queue(), nodes(1), running(3, until=[NOW + 1e9]), 4, NOW)
    assert read < 2000


SIZES = range(1, 4)


@pytest.mark.parametrize("idle", range(4))
def test_every_small_case(idle: int) -> None:
    for sizes, holders in product(product(SIZES, repeat=3), product([0, 1, 2], repeat=2)):
        busy = running(*filter(None, holders))
        most = idle + sum(holders)
        check(jobs(*sizes), nodes(idle), busy, most)
        check(jobs(*sizes, limit_s=10.0), nodes(idle), busy, most + 1)


def check(queue: list[Job], idle: list[str], busy: list[Busy], most: int) -> Schedule:
    found = schedule(queue, idle, busy, most, NOW)
    by_id = {job.run_id: job for job in queue}
    given = [node for _, held in found.starts for node in held]
    assert len(given) == len(set(given))
    assert set(given) <= set(idle)
    assert all(len(held) == by_id[run_id].node_count for run_id, held in found.starts)
    assert len(given) + sum(len(each.node_ids) for each in busy) <= max(
        most, sum(len(each.node_ids) for each in busy)
    )
    possible = [job for job in queue if job.node_count <= most]
    if possible and possible[0].node_count <= min(len(idle), most):
        assert found.starts
        assert found.starts[0][0] == possible[0].run_id
    assert found == schedule(queue, idle, busy, most, NOW)
    return found


# Nobody is delayed: a history is an order in which runs end. The strict queue, in which nobody
# passes, is played beside one in which those that passed never end.


def histories(queue: Sequence[Job], held: Sequence[int]) -> Iterator[list[str]]:
    names = [f"old-{n}" for n in range(len(held))] + [job.run_id for job in queue]
    return (list(each) for each in permutations(names, min(len(names), 4)))


def starting_steps(
    queue: Sequence[Job], free: int, held: dict[str, int], ends: Sequence[str]
) -> dict[str, int]:
    """At which end each run of a strict queue starts; ends of what does not run are skipped."""
    held, waiting, steps = dict(held), list(queue), {}
    for step, ending in enumerate(["", *ends]):
        free += held.pop(ending, 0)
        while waiting and waiting[0].node_count <= free:
            job = waiting.pop(0)
            held[job.run_id] = job.node_count
            free -= job.node_count
            steps[job.run_id] = step
    return steps


def assert_nobody_is_delayed(queue: list[Job], idle: int, held: list[int]) -> None:
    found = schedule(queue, nodes(idle), running(*held), idle + sum(held), NOW)
    first = next((n for n, job in enumerate(queue) if job.run_id not in started(found)), None)
    last = max((n for n, job in enumerate(queue) if job.run_id in started(found)), default=-1)
    if first is None or last < first:
        return
    ahead = [job for job in queue[: last + 1] if job.node_count <= idle + sum(held)]
    passed = {job.run_id for job in ahead[ahead.index(queue[first]) :]} & set(started(found))
    strict = [job for job in ahead if job.run_id not in passed]
    lost = sum(job.node_count for job in ahead if job.run_id in passed)
    holding = {f"old-{n}": count for n, count in enumerate(held)}
    for ends in histories(strict, held):
        alone = starting_steps(strict, idle, holding, ends)
        assert starting_steps(strict, idle - lost, holding, ends) == alone, (ends, passed)


def test_nobody_is_delayed_in_any_small_case() -> None:
    for idle, held, sizes in product(
        range(1, 4), product(range(1, 5), repeat=2), product(range(1, 6), repeat=3)
    ):
        queue = [job for job in jobs(*sizes) if job.node_count <= idle + sum(held)]
        assert_nobody_is_delayed(queue, idle, list(held))


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=5),
    st.integers(1, 4),
    st.lists(st.integers(1, 6), max_size=3),
)
def test_nobody_is_delayed(sizes: list[int], idle: int, held: list[int]) -> None:
    queue = [job for job in jobs(*sizes) if job.node_count <= idle + sum(held)]
    assert_nobody_is_delayed(queue, idle, held)


limited = st.tuples(st.integers(1, 4), st.integers(1, 30))


@given(st.lists(limited, min_size=2, max_size=6), st.lists(limited, max_size=4), st.integers(0, 4))
def test_the_head_starts_by_the_time_that_it_was_promised(
    wanted: list[tuple[int, int]], held: list[tuple[int, int]], idle: int
) -> None:
    """Everything takes as long as it may; the head starts as if it were alone."""
    most = idle + sum(size for size, _ in held)
    queue = [
        Job(f"run-{n}", size, 0, n, float(limit))
        for n, (size, limit) in enumerate(wanted)
        if size <= most
    ]
    busy = running(*(size for size, _ in held), until=[NOW + end for _, end in held])
    found = schedule(queue, nodes(idle), busy, most, NOW)
    if found.held_for is None:
        return
    before = queue[: queue.index(found.held_for)]
    ends = [(each.until or 0.0, len(each.node_ids)) for each in busy]
    alone = ends + [(NOW + (job.limit_s or 0.0), job.node_count) for job in before]
    by_id = {job.run_id: job for job in queue}
    mine = [by_id[run_id] for run_id in started(found)]
    after = ends + [(NOW + (job.limit_s or 0.0), job.node_count) for job in mine]
    need = found.held_for.node_count
    assert moment(need, most, after) <= moment(need, most, alone)


def moment(need: int, total: int, ends: list[tuple[float, int]]) -> float:
    """When so many nodes are free at last."""
    moments = [NOW, *sorted(end for end, _ in ends)]
    return next(t for t in moments if total - sum(c for end, c in ends if end > t) >= need)


# Whole queues are played to their end, beside a queue in which nobody ever passes.


def play(
    queue: list[Job], takes: dict[str, float], total: int, *, strict: bool
) -> dict[str, float]:
    """When each run starts; they are known to the scheduler from the moment of submission."""
    held: dict[str, tuple[float, Busy]] = {}
    starts: dict[str, float] = {}
    moments = [job.submitted for job in queue]
    while len(starts) < len(queue):
        now = min(moments)
        moments = [moment for moment in moments if moment > now]
        held = {run_id: (end, run) for run_id, (end, run) in held.items() if end > now}
        used = {node for _, run in held.values() for node in run.node_ids}
        idle = [node for node in nodes(total) if node not in used]
        line = [job for job in queue if job.submitted <= now and job.run_id not in starts]
        found = in_strict_order(line, idle) if strict else admit(line, idle, held, total, now)
        limits = {job.run_id: job.limit_s for job in line}
        for run_id, mine in found:
            limit = limits[run_id]
            until = None if limit is None else now + limit
            held[run_id] = (now + takes[run_id], Busy(mine, until))
            moments.append(now + takes[run_id])
            starts[run_id] = now
    return starts


def admit(
    line: list[Job], idle: list[str], held: dict[str, tuple[float, Busy]], total: int, now: float
) -> list[tuple[str, tuple[str, ...]]]:
    return list(schedule(line, idle, [run for _, run in held.values()], total, now).starts)


def in_strict_order(line: list[Job], idle: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for job in line:
        if job.node_count > len(idle):
            break
        found.append((job.run_id, tuple(idle[: job.node_count])))
        idle = idle[job.node_count :]
    return found


wanted = st.tuples(st.integers(1, 6), st.integers(1, 12), st.integers(0, 8), st.integers(1, 4))


@given(st.lists(wanted, min_size=2, max_size=9), st.integers(2, 6))
def test_without_limits_nobody_at_all_starts_later_than_in_a_strict_queue(
    asked: list[tuple[int, int, int, int]], total: int
) -> None:
    queue, takes = submitted(asked, total, limited=False)
    strict, ours = (play(queue, takes, total, strict=each) for each in (True, False))
    assert {run_id: ours[run_id] for run_id in strict if ours[run_id] > strict[run_id]} == {}


@given(st.lists(wanted, min_size=2, max_size=9), st.integers(2, 6))
def test_with_limits_the_first_that_waits_loses_no_more_than_the_limit_of_one_run(
    asked: list[tuple[int, int, int, int]], total: int
) -> None:
    at_once = [(size, length, 0, slack) for size, length, _, slack in asked]
    queue, takes = submitted(at_once, total, limited=True)
    strict, ours = (play(queue, takes, total, strict=each) for each in (True, False))
    head = next((job for job in queue if strict[job.run_id] > 0), None)
    if head is not None:
        behind = [job.limit_s or 0.0 for job in queue[queue.index(head) + 1 :]]
        assert ours[head.run_id] <= strict[head.run_id] + max(behind, default=0.0)


def submitted(
    asked: list[tuple[int, int, int, int]], total: int, *, limited: bool
) -> tuple[list[Job], dict[str, float]]:
    takes = {f"run-{n}": float(length) for n, (_, length, _, _) in enumerate(asked)}
    queue = [
        Job(f"run-{n}", min(size, total), 0, moment, length * slack if limited else None)
        for n, (size, length, moment, slack) in enumerate(asked)
    ]
    return in_order(queue), takes
