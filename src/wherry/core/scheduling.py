"""Which queued runs start now on a cluster's whole nodes: a pure function.

Order is by priority, then time. A run gets all its nodes at once or none. One that cannot start
holds back what follows, except a run that cannot delay it:

- by number: whichever runs end, in whichever order, the nodes that it takes are not among those
  that a run before it waits for;
- by time: all that must end first has a known end, and it is over by then. A run before it that
  could fill the same gap has it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

# How many of those that wait are looked past, and by how many of them spare nodes are counted.
_LOOK_AHEAD = 1000
_COUNTED = 100


@dataclass(frozen=True)
class Job:
    """A queued run. ``limit_s``: the longest that it can hold its nodes, set-up included."""

    run_id: str
    node_count: int = 1
    priority: int = 0
    submitted: float = 0.0
    limit_s: Optional[float] = None


class Busy(NamedTuple):
    """Nodes that one run holds. ``until``: when it has ended for certain, where that is known."""

    node_ids: Sequence[str]
    until: Optional[float] = None
    run_id: str = ""


@dataclass(frozen=True)
class Schedule:
    """Who starts where, and the first run that could not: idle nodes are kept for it.

    ``by`` is when that one has its nodes at the latest, where the ends of enough runs are known;
    ``filling`` are those that start because they are over in time.
    """

    starts: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()
    held_for: Optional[Job] = None
    by: Optional[float] = None
    filling: Tuple[str, ...] = ()


def in_order(queue: Iterable[Job]) -> List[Job]:
    """Priority first, then time; what came at the same moment stays as it is."""
    return sorted(queue, key=lambda job: (-job.priority, job.submitted))


def schedule(
    queue: Iterable[Job],
    idle_nodes: Sequence[str],
    busy: Sequence[Busy],
    max_nodes: int,
    now: float,
    reach: Optional[int] = None,
) -> Schedule:
    """Who starts now. ``queue`` is in order; the idle nodes are taken from the front.

    ``reach`` is how many nodes the cluster can have as things stand, where the site has less room
    than ``max_nodes``. A run that needs more than that holds nobody back.
    """
    held = sum(len(each.node_ids) for each in busy)
    free = list(idle_nodes[: max(0, max_nodes - held)])
    reach = max_nodes if reach is None else min(reach, max_nodes)
    line = _Line(busy, max(0, reach - held - len(free)), now)
    starts: List[Tuple[str, Tuple[str, ...]]] = []
    for job in queue:
        if not free or line.closed:
            break
        if job.node_count > reach:
            continue
        if job.node_count <= len(free) and line.lets(job):
            starts.append((job.run_id, tuple(free[: job.node_count])))
            del free[: job.node_count]
            line.start(job)
        else:
            line.hold(job, len(free))
    return Schedule(tuple(starts), line.head, line.by, tuple(line.filling))


class _Line:
    """Those that wait, and what may pass them.

    ``_sums`` has bit n set where some of the runs that hold nodes now, together with nodes that
    are still to be made, could give back exactly n nodes, at a moment that nobody knows.
    """

    def __init__(self, busy: Sequence[Busy], coming: int, now: float) -> None:
        self._ends = [(each.until, len(each.node_ids)) for each in busy]
        self._coming = coming
        self._now = now
        self._sums = 1
        self._waiting = 0
        self._passed = 0
        self._spare = 0
        self._until = now
        self.head: Optional[Job] = None
        self.by: Optional[float] = None
        self.filling: List[str] = []

    @property
    def closed(self) -> bool:
        """Nobody passes any more."""
        if self.head is None:
            return False
        return (not self._spare and self._until <= self._now) or self._passed >= _LOOK_AHEAD

    def lets(self, job: Job) -> bool:
        return self.head is None or job.node_count <= self._spare or self._in_time(job)

    def start(self, job: Job) -> None:
        until = None if job.limit_s is None else self._now + job.limit_s
        self._ends.append((until, job.node_count))
        if self.head is not None:
            if job.node_count > self._spare:
                self.filling.append(job.run_id)
            self._sums |= self._sums << job.node_count
        self._spare = max(0, self._spare - job.node_count)

    def hold(self, job: Job, free: int) -> None:
        """It waits; what the ones before it wait for comes back as well, one day."""
        self._passed += 1
        self._waiting += job.node_count
        if self.head is None:
            self._sums = _sums([*(count for _, count in self._ends), *[1] * self._coming])
            self._until = self._earliest(job.node_count - free)
            self.by = self._latest(job.node_count - free)
            self._spare = free
            self.head = job
        elif self._in_time(job):
            self._until = self._now
        if self._passed > _COUNTED:
            self._spare = 0
        if self._spare:
            self._spare = min(self._spare, _above(self._sums, self._waiting - free))
            self._sums |= self._sums << job.node_count

    def _in_time(self, job: Job) -> bool:
        return job.limit_s is not None and self._now + job.limit_s <= self._until

    def _earliest(self, missing: int) -> float:
        """Before this moment the head does not start, unless a run ends before its time.

        What has no known end, and what is still to be made, may be there at once.
        """
        missing -= self._coming + sum(count for until, count in self._ends if until is None)
        return (self._latest(missing) or self._now) if missing > 0 else self._now

    def _latest(self, missing: int) -> Optional[float]:
        """When so many nodes have been given back for certain."""
        known = sorted((until, count) for until, count in self._ends if until is not None)
        counts = accumulate(count for _, count in known)
        return next((known[i][0] for i, sum_ in enumerate(counts) if sum_ >= missing), None)


def _sums(counts: Iterable[int]) -> int:
    sums = 1
    for count in counts:
        sums |= sums << count
    return sums


def _above(sums: int, missing: int) -> int:
    """By how much the smallest sum that is enough is more than enough."""
    enough = sums >> missing
    return (enough & -enough).bit_length() - 1 if enough else 0
