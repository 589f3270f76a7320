"""Many members, one run: what is known of all of them together, and whom one failure ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Optional, Sequence, Tuple

from .lifecycle import GONE_GRACE_S, ExitRecord, Facts, Phase, Stage, Status, verdict

SIBLING = "Sibling"
"""Asked to end because another member of the run failed."""
PREEMPTED = "Preempted"
"""Asked to end because the node is wanted for another; the run queues again."""
UNUSABLE = "NodeUnusable"
"""Its node could not start it, and nothing of it was executed; the run queues again."""
GIVEN_UP = "GivenUp"
"""Its machine was declared lost by somebody: it may still run there, and is not heard any more."""
SERVED = "Served"
"""Asked to end because those that it served have all ended well."""


@dataclass(frozen=True)
class Member:
    """One node's part in a run. ``stop``: why it was asked to end, other than by a cancel.

    ``serves``: it never ends by itself, as a parameter server does not.
    """

    rank: int
    node: str
    facts: Facts
    stop: Optional[str] = None
    serves: bool = False

    @property
    def name(self) -> str:
        return f"node {self.rank}" + (f" ({self.node})" if self.node else "")

    @property
    def lost(self) -> bool:
        facts = self.facts
        gone = facts.phase is Phase.GONE and facts.gone_for_s >= GONE_GRACE_S
        return facts.exit is None and gone

    @property
    def ended(self) -> bool:
        return self.facts.exit is not None or self.lost

    @property
    def unexecuted(self) -> bool:
        """Whether it ended, and its node has proven that nothing of the user's was executed."""
        exit = self.facts.exit
        if exit is None or exit.unstarted:
            return exit is not None and self.facts.stage in (None, Stage.PREPARING)
        if exit.setup_error is not None:
            return True
        killed = exit.signal is not None or exit.exit_code is not None
        return exit.canceled and exit.started_at is None and not killed

    @property
    def failed(self) -> bool:
        exit = self.facts.exit
        return self.lost or (exit is not None and verdict(exit).status is not Status.COMPLETED)


@dataclass(frozen=True)
class Gang:
    """``facts`` for the lifecycle's decision, and the ranks to be asked to end, with the reason.

    ``cause`` is the member that ended the run by failing, among several the first. ``returns``
    says that it was not to blame, and why the run queues again: ``PREEMPTED`` or ``UNUSABLE``.
    """

    facts: Facts
    stop: Tuple[int, ...] = ()
    reason: str = ""
    cause: Optional[Member] = None
    lost: Tuple[Member, ...] = ()
    returns: str = ""

    def tell(self, sentence: str) -> str:
        """How it ended, said of the member that it is about."""
        if self.cause is None or not sentence:
            return sentence
        colon = ":" if sentence.startswith(("its ", "the ")) else ""
        others = [each.name for each in self.lost if each.rank != self.cause.rank]
        also = f"; {' and '.join(others)} could not be found any more" if others else ""
        return f"{self.cause.name}{colon} {sentence}{also}"


def together(members: Sequence[Member]) -> Gang:
    """A run has ended when all its members have, and failed when one of them has."""
    returns = _returns(members)
    if len(members) == 1:
        return Gang(members[0].facts, returns=returns if members[0].failed else "")
    cause = _cause(members)
    lost = tuple(each for each in members if each.lost)
    live = [each for each in members if not each.ended]
    if not live:
        ended_early = returns if cause is not None else ""
        return Gang(_end(members, cause), (), "", cause, lost, ended_early)
    reason = returns or _reason(members, cause)
    stop = tuple(each.rank for each in live if reason and each.stop is None)
    if reason == SERVED:
        stop = tuple(each.rank for each in live if each.serves and each.stop is None)
    return Gang(_going_on(live), stop, reason if stop else "", cause, lost)


def _returns(members: Sequence[Member]) -> str:
    asked = [each.stop for each in members]
    return next((reason for reason in (PREEMPTED, UNUSABLE) if reason in asked), "")


def _cause(members: Sequence[Member]) -> Optional[Member]:
    """The first that failed of itself; else, where all others were asked to end, the first."""
    failed = [each for each in members if each.failed and each.stop != SERVED]
    first = sorted(failed, key=_when)
    return next((each for each in first if each.stop is None), first[0] if first else None)


def _when(member: Member) -> Tuple[bool, float, int]:
    exit = member.facts.exit
    told = exit is not None and exit.ended_at is not None
    return not told, exit.ended_at or 0.0 if exit is not None else 0.0, member.rank


def _reason(members: Sequence[Member], cause: Optional[Member]) -> str:
    if cause is not None:
        return SIBLING
    workers = [each for each in members if not each.serves]
    return SERVED if workers and all(each.ended for each in workers) else ""


def _end(members: Sequence[Member], cause: Optional[Member]) -> Facts:
    if cause is not None and cause.facts.exit is None:
        return replace(cause.facts, phase=Phase.GONE)
    exits = [each.facts.exit for each in members if each.facts.exit is not None]
    exit = (cause and cause.facts.exit) or ExitRecord(exit_code=0)
    starts = [each.started_at for each in exits if each.started_at is not None]
    ends = [each.ended_at for each in exits if each.ended_at is not None]
    whole = replace(
        exit,
        started_at=min(starts, default=None),
        ended_at=max(ends, default=None),
        warnings=_warnings(members),
    )
    if cause is not None and all(each.unexecuted for each in members):
        number, elsewhere = cause.facts.number, cause.facts.elsewhere
        return Facts(Stage.PREPARING, whole, Phase.EXITED, number=number, elsewhere=elsewhere)
    return Facts(Stage.FINALIZING, replace(whole, unstarted=False), Phase.EXITED)


def _warnings(members: Sequence[Member]) -> List[str]:
    return [
        f"{each.name}: {warning}"
        for each in members
        if each.facts.exit is not None
        for warning in each.facts.exit.warnings
    ]


_ORDER = [None, Stage.PREPARING, Stage.RUNNING, Stage.FINALIZING]


def _going_on(live: Sequence[Member]) -> Facts:
    """As far as the last of them has come; doubt about one is doubt about all."""
    return Facts(
        stage=min((each.facts.stage for each in live), key=_ORDER.index),
        phase=Phase.UNKNOWN,
        silent_for_s=max(each.facts.silent_for_s for each in live),
    )
