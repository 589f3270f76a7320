"""When a cluster makes nodes and when it lets them go: a pure function of queue, nodes and time.

Nodes are made for runs that will start on them, and for no others: the plan is what the scheduler
would do if every node that may still be made were there already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, List, Optional, Sequence, Tuple

from .nodes import NodeState, NodeView, busy, idle, of
from .scheduling import Job, Schedule, schedule

TRIES = 3
"""A node that did not start so often in a row is shown as unusable."""

_BACKOFF_S = 5.0
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


def admit(
    queue: Iterable[Job],
    nodes: Sequence[NodeView],
    config: Config,
    now: float,
    site_room: Optional[int] = None,
) -> Schedule:
    """Who starts now. ``queue`` is in order, its head is enough."""
    ready = [node.id for node in idle(nodes)]
    reach = _reach(nodes, config, now, site_room)
    return schedule(queue, ready, busy(nodes), config.max_nodes, now, reach)


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
    ready, coming = idle(nodes), of(nodes, NodeState.PREPARING)
    due, growth = _due(nodes, now), _growth(nodes, config, site_room)
    places = [node.id for node in [*ready, *coming]]
    places += [f"new {n}" for n in range(growth + len(due))]
    reach = _reach(nodes, config, now, site_room)
    plan = schedule(queue, places, busy(nodes), config.max_nodes, now, reach)
    taken = sum(len(node_ids) for _, node_ids in plan.starts)
    short = max(taken - len(ready) - len(coming), _least(config) - _usable(nodes), 0)
    kept = taken + (plan.held_for.node_count if plan.held_for else 0)
    remove = _over(nodes, config) or _expired(nodes, ready[kept:], config, now, short)
    make = min(short, growth)
    retry = [node.id for node in due if node.id not in remove][: short - make]
    return Actions(make, tuple(remove), tuple(retry))


def _least(config: Config) -> int:
    return min(config.min_nodes, config.max_nodes)


def _usable(nodes: Sequence[NodeView]) -> int:
    return len(of(nodes, NodeState.IDLE, NodeState.RUNNING, NodeState.PREPARING))


def _growth(nodes: Sequence[NodeView], config: Config, site_room: Optional[int]) -> int:
    """How many may be made: what leaves still counts, and so does what failed."""
    growth = config.max_nodes - len(nodes)
    return max(0, growth if site_room is None else min(growth, site_room))


def _due(nodes: Sequence[NodeView], now: float) -> List[NodeView]:
    """Unusable nodes that were left alone for long enough."""
    unusable = of(nodes, NodeState.UNUSABLE)
    return [node for node in unusable if now - node.since >= backoff_s(node.tries)]


def _reach(nodes: Sequence[NodeView], config: Config, now: float, site_room: Optional[int]) -> int:
    """How many nodes there can be: what leaves makes room, what cannot be used does not count."""
    back = len(of(nodes, NodeState.LEAVING)) + len(_due(nodes, now))
    return _usable(nodes) + back + _growth(nodes, config, site_room)


def _over(nodes: Sequence[NodeView], config: Config) -> List[str]:
    """Those above a limit that was lowered: the least useful first, never one that is in use."""
    unusable, coming = of(nodes, NodeState.UNUSABLE), of(nodes, NodeState.PREPARING)
    spare = [*unusable, *reversed([*idle(nodes), *coming])]
    over = len(unusable) + _usable(nodes) - config.max_nodes
    return [node.id for node in spare[: max(0, over)]]


def _expired(
    nodes: Sequence[NodeView], spare: Sequence[NodeView], config: Config, now: float, short: int
) -> List[str]:
    """Those that nobody wanted for long enough, the longest idle first, down to the minimum."""
    old = [each for each in reversed(spare) if _idle_for(each, now) >= config.idle_s]
    gone = [each.id for each in old[: max(0, _usable(nodes) - _least(config))]]
    if not short:
        unusable = of(nodes, NodeState.UNUSABLE)
        gone += [each.id for each in unusable if now - each.since >= config.idle_s]
    return gone


def _idle_for(node: NodeView, now: float) -> float:
    return now - (node.since if node.idle_since is None else node.idle_since)
