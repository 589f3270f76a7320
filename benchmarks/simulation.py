"""``make simulate``: a cluster of 1,000 nodes and 100,000 runs through a week that has everything.

Nothing sleeps: events have times, and at every step the scheduler and the autoscaler are asked as
the server asks them. Nodes take a while to start and some do not, nodes die and are preempted, the
site fails for hours and lends its room to others, the limits are changed while all runs on.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import math
import random
import sys
import time
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from benchmarks.measure import Row, print_table
from wherry.core.autoscale import TRIES, Actions, Config, admit, backoff_s, decide, reach
from wherry.core.nodes import NodeState, NodeView
from wherry.core.preemption import evict
from wherry.core.scheduling import Job, Schedule

T = TypeVar("T")

HOUR_S, DAY_S = 3600.0, 86400.0
IDLE_S = 120.0
START_S = 90.0
LEAVE_S = 10.0
SETUP_S = 60.0
PER_RUN_NODE_S = 1000.0
"""Seconds of a run on each of its nodes, on average."""
SHARES = [(1, 0.80), (2, 0.08), (4, 0.06), (8, 0.04), (32, 0.015), (128, 0.004), (400, 0.001)]


@dataclass(frozen=True)
class Plan:
    nodes: int = 1000
    runs: int = 100_000
    days: float = 7.0
    seed: int = 1
    limited: float = 0.5
    slack: float = 4.0
    step_s: float = 10.0


@dataclass
class Run:
    job: Job
    takes_s: float
    asked: float = 0.0
    started: float | None = None
    ended: float | None = None
    attempt: int = 0


@dataclass
class Found:
    """What a simulation has seen."""

    waits: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[NodeState, float] = field(default_factory=lambda: defaultdict(float))
    decisions_s: list[float] = field(default_factory=list)
    profile: list[tuple[float, int]] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    gathering_s: float = 0.0
    filled: int = 0
    promises: int = 0
    most: int = 0
    longest_queue: int = 0
    ended: float = 0.0

    def clairvoyant_s(self) -> float:
        """The least that anyone can waste who has the same runs at the same times.

        Who knows the future keeps a node through a gap that is shorter than a start, and lets it
        go at once before a longer one. The k-th node is needed while k or more are busy.
        """
        start_s = sum(self.starts_s) / max(1, len(self.starts_s))
        spent = 0.0
        free_since: list[float] = []  # the node that was freed last is on top
        for moment, change in sorted(self.profile):
            for _ in range(-change):
                free_since.append(moment)
            for _ in range(change):
                gap = moment - free_since.pop() if free_since else math.inf
                spent += min(gap, start_s)
        return spent


class World:
    """A site, a cluster on it, and people who submit runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._now = 0.0
        self._nodes: dict[str, NodeView] = {}
        self._since: dict[str, float] = {}
        self._runs: dict[str, Run] = {}
        self._queue: list[tuple[int, float, int, Job]] = []
        self._events: list[tuple[float, int, str, str]] = []
        self._serial = 0
        self._holding: dict[str, tuple[str, ...]] = {}
        self._held_limit = 0
        self._promised: dict[str, float] = {}
        self._circumstances: tuple[Config, int] | None = None
        self.found = Found()
        for run in _runs(plan, self._random):
            self._runs[run.job.run_id] = run
            self._at(run.job.submitted, "submitted", run.job.run_id)
        for moment in _moments(self._random, plan.days * DAY_S, 2 * HOUR_S):
            self._at(moment, "evicted")
        for moment in _moments(self._random, plan.days * DAY_S, HOUR_S):
            self._at(moment, "died")

    def play(self) -> Found:
        """Until every run has ended and the last node has gone."""
        left = len(self._runs)
        while left or self._nodes:
            self._now += self._plan.step_s
            while self._events and self._events[0][0] <= self._now:
                moment, _, what, which = heapq.heappop(self._events)
                left -= self._happen(what, which, moment)
            if self._nodes or self._queue:
                self._decide()
                self._check()
            if self._now > (self._plan.days + 14) * DAY_S:
                raise AssertionError(f"{left} runs starve: {self._queue[:3]}")
        self.found.ended = self._now
        return self.found

    # What the server does: one pass.

    def _decide(self) -> None:
        config, room = self._config(), self._room()
        nodes = list(self._nodes.values())
        most = reach(nodes, config, self._now, room)
        queue = self._head(most)
        found, admit_s = _timed(partial(admit, queue, nodes, config, self._now, room))
        self._note_promise(found)
        for run_id, node_ids in found.starts:
            self._start(run_id, node_ids)
        if found.starts:
            gone = {run_id for run_id, _ in found.starts}
            self._queue = [each for each in self._queue if each[3].run_id not in gone]
            queue, nodes = self._head(most), list(self._nodes.values())
        actions, decide_s = _timed(partial(decide, queue, nodes, config, self._now, room))
        self.found.decisions_s.append(admit_s + decide_s)
        if found.held_for is not None:
            idle = sum(node.state is NodeState.IDLE for node in nodes)
            kept = min(idle, found.held_for.node_count)
            self.found.gathering_s += kept * self._plan.step_s
        self._act(actions)

    def _note_promise(self, found: Schedule) -> None:
        """When the first that waits has its nodes at the latest, unless something happens."""
        self.found.filled += len(found.filling)
        circumstances = self._config(), self._whole()
        if circumstances != self._circumstances:
            self._promised.clear()
        self._circumstances = circumstances
        if found.held_for is not None and found.by is not None:
            known = self._promised.get(found.held_for.run_id, math.inf)
            self._promised[found.held_for.run_id] = min(known, found.by)

    def _keep_promise(self, run_id: str) -> None:
        by = self._promised.pop(run_id, None)
        if by is None:
            return
        self.found.promises += 1
        if self._now > by + self._plan.step_s:
            raise AssertionError(f"{run_id} was delayed by {self._now - by:.0f} s")

    def _head(self, most: int) -> list[Job]:
        """The first 2,000 of those that can start as things stand."""
        possible = (job for *_, job in self._queue if job.node_count <= most)
        return list(islice(possible, 2000))

    def _act(self, actions: Actions) -> None:
        for node_id in actions.remove:
            if self._nodes[node_id].state is NodeState.RUNNING:
                raise AssertionError(f"{node_id} is in use and was to be removed")
            self._set(node_id, NodeState.LEAVING)
            self._at(self._now + LEAVE_S, "left", node_id)
        for node_id in actions.retry:
            self._set(node_id, NodeState.PREPARING)
            self._try(node_id)
        for _ in range(actions.make):
            self._serial += 1
            node_id = f"n{self._serial}"
            self._nodes[node_id] = NodeView(node_id, NodeState.PREPARING, since=self._now)
            self._since[node_id] = self._now
            self._try(node_id)

    def _start(self, run_id: str, node_ids: tuple[str, ...]) -> None:
        run = self._runs[run_id]
        limit = run.job.limit_s
        for node_id in node_ids:
            if self._nodes[node_id].state is not NodeState.IDLE:
                raise AssertionError(f"{node_id} was given to {run_id} and is not idle")
            until = None if limit is None else self._now + limit
            self._set(node_id, NodeState.RUNNING, run_id=run_id, until=until)
        if len(node_ids) != run.job.node_count:
            raise AssertionError(f"{run_id} got {len(node_ids)} nodes")
        self._keep_promise(run_id)
        run.attempt += 1
        run.started = self._now
        self.found.waits[run.job.node_count].append(self._now - run.asked)
        self.found.profile.append((self._now, len(node_ids)))
        self._holding[run_id] = node_ids
        self._at(self._now + run.takes_s, "ended", f"{run_id} {run.attempt}")

    # What happens by itself. Each gives the number of runs that ended.

    def _happen(self, what: str, which: str, moment: float) -> int:
        self.found.events[what] += 1
        return int(getattr(self, f"_on_{what}")(which, moment) or 0)

    def _on_submitted(self, run_id: str, moment: float) -> None:
        run = self._runs[run_id]
        run.asked = moment
        if run.job.priority:
            self._promised.clear()
        self._enqueue(run.job)

    def _on_ended(self, which: str, moment: float) -> int:
        run_id, attempt = which.split()
        if self._runs[run_id].attempt != int(attempt) or run_id not in self._holding:
            return 0
        self._release(run_id)
        self._runs[run_id].ended = moment
        return 1

    def _on_ready(self, node_id: str, moment: float) -> None:
        if self._state(node_id) is NodeState.PREPARING:
            self._set(node_id, NodeState.IDLE, tries=0)

    def _on_failed(self, node_id: str, moment: float) -> None:
        if self._state(node_id) is not NodeState.PREPARING:
            return
        tries = self._nodes[node_id].tries + 1
        if tries >= TRIES:
            self._set(node_id, NodeState.UNUSABLE, tries=tries)
        else:
            self._nodes[node_id] = replace(self._nodes[node_id], tries=tries)
            self._at(self._now + backoff_s(tries), "tried", node_id)

    def _on_tried(self, node_id: str, moment: float) -> None:
        if self._state(node_id) is NodeState.PREPARING:
            self._try(node_id)

    def _on_left(self, node_id: str, moment: float) -> None:
        self._spend(node_id)
        del self._nodes[node_id]

    def _on_died(self, _: str, moment: float) -> None:
        """A node in use breaks; its run queues again with its old place in the line."""
        busy = [node.id for node in self._nodes.values() if node.state is NodeState.RUNNING]
        self._promised.clear()
        if busy:
            node_id = self._random.choice(busy)
            self._again(self._nodes[node_id].run_id or "")
            self._set(node_id, NodeState.UNUSABLE)

    def _on_evicted(self, _: str, moment: float) -> None:
        self._promised.clear()
        for node_id in evict(max(1, self._plan.nodes // 50), list(self._nodes.values())):
            if self._nodes[node_id].run_id:
                self._again(self._nodes[node_id].run_id or "")
            self._set(node_id, NodeState.PREEMPTED)
            self._at(self._now + LEAVE_S, "left", node_id)

    # How it is done.

    def _again(self, run_id: str) -> None:
        if run_id in self._holding:
            self._release(run_id)
            self._runs[run_id].asked = self._now
            self._enqueue(self._runs[run_id].job)

    def _release(self, run_id: str) -> None:
        node_ids = self._holding.pop(run_id)
        for node_id in node_ids:
            self._set(node_id, NodeState.IDLE)
        self.found.profile.append((self._now, -len(node_ids)))

    def _try(self, node_id: str) -> None:
        """A node starts, or does not: now and then, and always while the site is down."""
        takes_s = START_S * self._random.lognormvariate(0.0, 0.3)
        fails = self._site_is_down() or self._random.random() < 0.03
        self._at(self._now + takes_s, "failed" if fails else "ready", node_id)
        if not fails:
            self.found.starts_s.append(takes_s)

    def _enqueue(self, job: Job) -> None:
        insort(self._queue, (-job.priority, job.submitted, int(job.run_id[3:]), job))

    def _state(self, node_id: str) -> NodeState | None:
        return self._nodes[node_id].state if node_id in self._nodes else None

    def _set(
        self,
        node_id: str,
        state: NodeState,
        *,
        tries: int | None = None,
        run_id: str | None = None,
        until: float | None = None,
    ) -> None:
        self._spend(node_id)
        node = self._nodes[node_id]
        idle = self._now if state is NodeState.IDLE else None
        tries = node.tries if tries is None else tries
        self._nodes[node_id] = NodeView(node_id, state, idle, tries, self._now, run_id, until)

    def _spend(self, node_id: str) -> None:
        since = self._since.get(node_id, self._now)
        self.found.seconds[self._nodes[node_id].state] += self._now - since
        self._since[node_id] = self._now

    def _at(self, moment: float, what: str, which: str = "") -> None:
        self._serial += 1
        heapq.heappush(self._events, (moment, self._serial, what, which))

    # What changes from outside during the week.

    def _config(self) -> Config:
        day = self._now / DAY_S
        most, least = self._plan.nodes, 0
        if 4.4 < day < 4.6:
            most = max(1, most * 4 // 10)
        if 5.2 < day < 5.5:
            least = self._plan.nodes // 20
        return Config(least, most, IDLE_S)

    def _whole(self) -> int:
        day = self._now / DAY_S
        return self._plan.nodes * 7 // 10 if 2.3 < day < 2.8 else self._plan.nodes

    def _room(self) -> int:
        return max(0, self._whole() - len(self._nodes))

    def _site_is_down(self) -> bool:
        day = self._now / DAY_S
        return 1.1 < day < 1.2 or 3.5 < day < 3.55

    def _check(self) -> None:
        """Never more nodes than the limit, except while those in use are waited for."""
        most = self._config().max_nodes
        going = (NodeState.LEAVING, NodeState.PREEMPTED)
        held = len(self._nodes)
        if held > max(most, self._held_limit):
            raise AssertionError(f"{held} nodes, and {most} are allowed")
        if held > most:
            staying = [node for node in self._nodes.values() if node.state not in going]
            used = sum(node.state is NodeState.RUNNING for node in staying)
            if len(staying) > max(most, used):
                raise AssertionError("the limit was lowered, and a node that nobody uses stays")
        self._held_limit = held
        self.found.most = max(self.found.most, held)
        self.found.longest_queue = max(self.found.longest_queue, len(self._queue))


def _timed(ask: Callable[[], T]) -> tuple[T, float]:
    """A slow answer is asked for again, twice: what the machine did meanwhile is not counted."""
    times: list[float] = []
    while not times or (times[0] > 0.002 and len(times) < 3):
        before = time.thread_time()
        answer = ask()
        times.append(time.thread_time() - before)
    return answer, min(times)


def _runs(plan: Plan, chance: random.Random) -> Iterator[Run]:
    """More by day than by night, few at the weekend; most are small and short, some are not."""
    sizes = [(size * plan.nodes // 1000 or size, share) for size, share in SHARES]
    sizes = [(size, share) for size, share in sizes if size <= plan.nodes]
    for number in range(plan.runs):
        moment = _submission(plan, chance)
        size = chance.choices([s for s, _ in sizes], [share for _, share in sizes])[0]
        takes_s = min(chance.lognormvariate(math.log(PER_RUN_NODE_S) - 0.72, 1.2), 12 * HOUR_S)
        limited = chance.random() < plan.limited
        allowed_s = takes_s * chance.uniform(min(1.1, plan.slack), plan.slack) + SETUP_S
        priority = 5 if chance.random() < 0.03 else 0
        limit_s = allowed_s if limited else None
        yield Run(Job(f"run{number}", size, priority, moment, limit_s), takes_s)


def _submission(plan: Plan, chance: random.Random) -> float:
    while True:
        moment = chance.uniform(0, plan.days * DAY_S)
        hour, day = moment % DAY_S / HOUR_S, int(moment / DAY_S) % 7
        busy = 0.55 - 0.45 * math.cos((hour - 2) / 24 * 2 * math.pi)
        if chance.random() < busy * (0.4 if day >= 5 else 1.0):
            return moment


def _moments(chance: random.Random, until: float, every_s: float) -> Iterator[float]:
    moment = chance.expovariate(1 / every_s)
    while moment < until:
        yield moment
        moment += chance.expovariate(1 / every_s)


def rows(plan: Plan, found: Found) -> list[Row]:
    waits = sorted(wait for waits in found.waits.values() for wait in waits)
    worst = [f"{size}: {max(each) / HOUR_S:.1f} h" for size, each in sorted(found.waits.items())]
    times = sorted(found.decisions_s)
    spent = {state: seconds / HOUR_S for state, seconds in found.seconds.items()}
    used, held = spent[NodeState.RUNNING], sum(spent.values())
    bound = found.clairvoyant_s() / HOUR_S
    kept, wasted = found.gathering_s / HOUR_S, held - used
    free = wasted - kept
    return [
        Row(
            "most nodes at once",
            f"{found.most}",
            goal=f"<= {plan.nodes}",
            holds=found.most <= plan.nodes,
        ),
        Row("runs that started, again or for the first time", f"{len(waits)}"),
        Row("longest queue", f"{found.longest_queue} runs"),
        Row("wait, median", f"{_at_share(waits, 0.5):.0f} s"),
        Row("wait, 9 of 10", f"{_at_share(waits, 0.9) / 60:.0f} min"),
        Row("longest wait by number of nodes", ", ".join(worst)),
        Row("runs that filled a gap by their time limit", f"{found.filled}"),
        Row("waiting runs that were told a latest start, and had it", f"{found.promises}"),
        Row("decision, median", f"{_at_share(times, 0.5) * 1000:.2f} ms"),
        Row("decision, 999 of 1,000", f"{_at_share(times, 0.999) * 1000:.2f} ms"),
        Row(
            "decision, longest",
            f"{times[-1] * 1000:.2f} ms",
            goal="< 10 ms",
            holds=times[-1] < 0.010,
        ),
        Row("node-hours", f"{held:.0f}", f"used by runs: {used:.0f}", f"{used / held:.0%}"),
        *(Row(f"  {state.value}", f"{hours:.0f}") for state, hours in spent.items()),
        Row("  idle, kept for a run that gathers its nodes", f"{kept:.0f}"),
        Row(
            "node-hours that no run had",
            f"{wasted:.0f}",
            f"clairvoyant: {bound:.0f}",
            f"{wasted / bound:.2f}x",
        ),
        Row("  without those that were kept", f"{free:.0f}", "", f"{free / bound:.2f}x"),
    ]


def _at_share(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def brief(plan: Plan, found: Found) -> Row:
    """A week in one line: the longest wait, the longest decision, what no run had."""
    waits = max(max(each) for each in found.waits.values()) / HOUR_S
    largest = max(found.waits[max(found.waits)]) / HOUR_S
    wasted = sum(found.seconds.values()) - found.seconds[NodeState.RUNNING]
    longest_s = max(found.decisions_s)
    return Row(
        f"seed {plan.seed}: {found.most} nodes, waits up to {waits:.1f} h, "
        f"{max(found.waits)} nodes {largest:.1f} h, {found.filled} filled a gap",
        f"{wasted / HOUR_S:.0f} node-hours that no run had",
        f"clairvoyant: {found.clairvoyant_s() / HOUR_S:.0f}",
        f"{wasted / found.clairvoyant_s():.2f}x",
        f"{longest_s * 1000:.2f} ms < 10 ms",
        found.most <= plan.nodes and longest_s < 0.010,
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--nodes", type=int, default=Plan.nodes)
    parser.add_argument("--runs", type=int, default=Plan.runs)
    parser.add_argument("--days", type=float, default=Plan.days)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--limited", type=float, default=Plan.limited, help="share with a limit")
    parser.add_argument("--slack", type=float, default=Plan.slack, help="a limit, in durations")
    parser.add_argument("--seeds", type=int, default=1, help="so many weeks, a line for each")
    given = vars(parser.parse_args(arguments))
    weeks = given.pop("seeds")
    plan = Plan(**given)
    gc.disable()  # it would count the simulation's own hundred thousand objects as a decision's
    told: list[Row] = []
    for seed in range(plan.seed, plan.seed + weeks):
        week = replace(plan, seed=seed)
        found = World(week).play()
        told += rows(week, found) if weeks == 1 else [brief(week, found)]
        gc.collect()
    print_table(told)
    return 0 if all(row.holds is not False for row in told) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
