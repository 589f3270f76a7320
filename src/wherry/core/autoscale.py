"""When a cluster makes nodes and when it lets them go: a pure function of queue, nodes and time.

Nodes are made for runs that will start on them, and for no others: the plan is what the scheduler
would do if every node that may still be made were there already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Iterable, List, Optional, Sequence, Tuple

from .nodes import NodeState, NodeView, busy, by_state, freshest
from .scheduling import Job, Schedule, schedule

TRIES = 3
"""A node that did not start so often in a row is shown as unusable."""

_BACKOFF_S = 5.0
_CLOCK_S = 60.0  # what lies further ahead was written before the clock was set back
_LONGEST_BACKOFF_S = 1800.0


@dataclass(frozen=True)
class Config:
    min_nodes: int = 0
    max_nodes: int = 1
    idle_s: float = 120.0


@dataclass(frozen=True)
class Actions:
    """``make`` new nodes, ``remove`` these, ``retry`` these unusable ones where they are."""

    make: int = 0
    remove: Tuple[str, ...] = ()
    retry: Tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """In words, or nothing where nothing is done."""
        done = [
            (self.make, "more wanted"),
            (len(self.remove), "no longer wanted"),
            (len(self.retry), "tried again"),
        ]
        return ", ".join(f"{count} {what}" for count, what in done if count)


def backoff_s(tries: int) -> float:
    """How long a node that failed to start so often is left alone: 10 s, 20 s, ... half an hour."""
    return min(_BACKOFF_S * 2.0 ** min(tries, 20), _LONGEST_BACKOFF_S)


def reach(
    nodes: Sequence[NodeView], config: Config, now: float, site_room: Optional[int] = None
) -> int:
    """How many nodes a cluster can have as things stand.

    Runs that ask for more wait for better times, and are left out of the queue's head: many of
    them would hide those behind them.
    """
    return _Cluster(nodes, config, now, site_room).reach


def admit(
    queue: Iterable[Job],
    nodes: Sequence[NodeView],
    config: Config,
    now: float,
    site_room: Optional[int] = None,
) -> Schedule:
    """Who starts now. ``queue`` is in order, its head is enough."""
    return _Cluster(nodes, config, now, site_room).admit(queue)


def decide(
    queue: Iterable[Job],
    nodes: Sequence[NodeView],
    config: Config,
    now: float,
    site_room: Optional[int] = None,
) -> Actions:
    """What to make, to remove and to try again, now. ``queue`` is in order, its head is enough.

    ``site_room`` is how many more nodes the site could give, where it knows.
    """
    return _Cluster(nodes, config, now, site_room).decide(queue)


class _Cluster:
    """The nodes at one moment, counted once."""

    def __init__(
        self, nodes: Sequence[NodeView], config: Config, now: float, site_room: Optional[int]
    ) -> None:
        found = by_state(nodes)
        self._config = config
        self._now = now
        self._least = min(config.min_nodes, config.max_nodes)
        self._running = found[NodeState.RUNNING]
        self._ready = freshest(found[NodeState.IDLE])
        self._coming = found[NodeState.PREPARING]
        self._unusable = found[NodeState.UNUSABLE]
        self._due = [node for node in self._unusable if self._age(node) >= backoff_s(node.tries)]
        self._usable = len(self._running) + len(self._ready) + len(self._coming)
        # How many may be made: what leaves still counts, and so does what failed.
        growth = config.max_nodes - len(nodes)
        self._growth = max(0, growth if site_room is None else min(growth, site_room))
        # How many there can be: what leaves makes room, what cannot be used does not count.
        back = len(found[NodeState.LEAVING]) + len(self._due)
        self.reach = min(self._usable + back + self._growth, config.max_nodes)

    def admit(self, queue: Iterable[Job]) -> Schedule:
        return self._schedule(queue, [node.id for node in self._ready])

    def decide(self, queue: Iterable[Job]) -> Actions:
        places = [node.id for node in [*self._ready, *self._coming]]
        places += [f"new {n}" for n in range(self._growth + len(self._due))]
        plan = self._schedule(queue, places)
        taken = sum(len(node_ids) for _, node_ids in plan.starts)
        kept = taken + (plan.held_for.node_count if plan.held_for else 0)
        there = len(self._ready) + len(self._coming)
        short = max(taken - there, self._least - self._usable, 0)
        remove = self._over() or self._expired(self._ready[kept:], short)
        make = min(short, self._growth)
        retry = [node.id for node in self._due if node.id not in remove][: short - make]
        return Actions(make, tuple(remove), tuple(retry))

    def _schedule(self, queue: Iterable[Job], places: Sequence[str]) -> Schedule:
        if not places:
            return Schedule()
        most = self._config.max_nodes
        return schedule(queue, places, busy(self._running), most, self._now, self.reach)

    def _over(self) -> List[str]:
        """Those above a limit that was lowered: the least useful first, never one in use."""
        spare = [*self._unusable, *reversed([*self._ready, *self._coming])]
        over = len(self._unusable) + self._usable - self._config.max_nodes
        return [node.id for node in spare[: max(0, over)]]

    def _expired(self, spare: Sequence[NodeView], short: int) -> List[str]:
        """Those that nobody wanted for long enough, the longest idle first, down to the minimum."""
        old = [node for node in reversed(spare) if self._age(node) >= self._config.idle_s]
        gone = old[: max(0, self._usable - self._least)]
        if not short:
            gone += [node for node in self._unusable if self._age(node) >= self._config.idle_s]
        return [node.id for node in gone]

    def _age(self, node: NodeView) -> float:
        since = node.since if node.idle_since is None else node.idle_since
        age = self._now - since
        return age if age > -_CLOCK_S else math.inf
