"""A run's statuses, which may follow which, and the one function that decides.

Drivers and runners report facts; nothing here reads a clock, a file or a database.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, FrozenSet, Mapping, Optional, Sequence


class Status(str, Enum):
    """Azure ML's words. ``CancelRequested`` is shown to people, never stored."""

    NOT_STARTED = "NotStarted"
    QUEUED = "Queued"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    PREPARING = "Preparing"
    RUNNING = "Running"
    FINALIZING = "Finalizing"
    NOT_RESPONDING = "NotResponding"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


CANCEL_REQUESTED = "CancelRequested"
TERMINAL: FrozenSet[Status] = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELED})

_ENDS = {Status.COMPLETED, Status.FAILED, Status.CANCELED}

TRANSITIONS: Mapping[Status, FrozenSet[Status]] = {
    Status.NOT_STARTED: frozenset({Status.QUEUED, Status.RUNNING, *_ENDS}),
    Status.QUEUED: frozenset(
        {Status.PROVISIONING, Status.STARTING, Status.FAILED, Status.CANCELED}
    ),
    Status.PROVISIONING: frozenset(
        {Status.QUEUED, Status.STARTING, Status.FAILED, Status.CANCELED}
    ),
    Status.STARTING: frozenset(
        {
            Status.QUEUED,
            Status.PREPARING,
            Status.RUNNING,
            Status.FINALIZING,
            Status.NOT_RESPONDING,
            *_ENDS,
        }
    ),
    Status.PREPARING: frozenset(
        {Status.QUEUED, Status.RUNNING, Status.FINALIZING, Status.NOT_RESPONDING, *_ENDS}
    ),
    Status.RUNNING: frozenset({Status.QUEUED, Status.FINALIZING, Status.NOT_RESPONDING, *_ENDS}),
    Status.FINALIZING: frozenset({Status.QUEUED, Status.NOT_RESPONDING, *_ENDS}),
    Status.NOT_RESPONDING: frozenset(
        {
            Status.QUEUED,
            Status.STARTING,
            Status.PREPARING,
            Status.RUNNING,
            Status.FINALIZING,
            *_ENDS,
        }
    ),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELED: frozenset(),
}


class Phase(str, Enum):
    """What a backend sees of an attempt. Not a status: drivers know nothing of runs."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"
    GONE = "gone"
    UNKNOWN = "unknown"


class Stage(str, Enum):
    """How far the runner says it has come."""

    PREPARING = "preparing"
    RUNNING = "running"
    FINALIZING = "finalizing"


class Reason(str, Enum):
    """Why a run ended, or whose turn it is."""

    SUCCEEDED = "Succeeded"
    EXIT_CODE = "ExitCode"
    SIGNAL = "Signal"
    OUT_OF_MEMORY = "OutOfMemory"
    TIME_LIMIT = "TimeLimit"
    CANCELED = "Canceled"
    SETUP_FAILED = "SetupFailed"
    LAUNCH_REFUSED = "LaunchRefused"
    RUNNER_LOST = "RunnerLost"
    PREEMPTED = "Preempted"
    NODE_UNUSABLE = "NodeUnusable"
    CLIENT_LOST = "ClientLost"
    REPORTED = "Reported"


@dataclass(frozen=True)
class ExitRecord:
    """What the runner wrote down when the command ended. The only proof of an end.

    ``lost``: the runner was killed, and one that came after it did not see how the command ended.
    ``unstarted``: that one saw besides that the command had not been started, nor ever will be.
    ``no_room``: the disk of the node was full before the command could be started.
    ``warnings``: sentences on what the run left and could not be kept.
    """

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    canceled: bool = False
    timed_out: bool = False
    out_of_memory: bool = False
    setup_error: Optional[str] = None
    error: Optional[Mapping[str, Any]] = None
    lost: bool = False
    unstarted: bool = False
    no_room: bool = False
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    warnings: Sequence[str] = ()

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> ExitRecord:
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})


@dataclass(frozen=True)
class Observation:
    """What a driver saw: facts, no verdict."""

    phase: Phase
    exit: Optional[ExitRecord] = None
    detail: str = ""


@dataclass(frozen=True)
class Facts:
    """Everything known about the current attempt, the run's ``number``-th, at one moment.

    ``elsewhere``: its target has more than one machine, and another may do better.
    """

    stage: Optional[Stage] = None
    exit: Optional[ExitRecord] = None
    phase: Phase = Phase.UNKNOWN
    gone_for_s: float = 0.0
    silent_for_s: float = 0.0
    number: int = 1
    elsewhere: bool = False


@dataclass(frozen=True)
class Decision:
    status: Status
    reason: Optional[Reason] = None


GONE_GRACE_S = 10.0
SILENCE_LIMIT_S = 60.0
MOST_ATTEMPTS = 3

_BY_STAGE = {
    Stage.PREPARING: Status.PREPARING,
    Stage.RUNNING: Status.RUNNING,
    Stage.FINALIZING: Status.FINALIZING,
}


def decide(status: Status, facts: Facts, *, cancel_requested: bool = False) -> Optional[Decision]:
    """The status that the facts call for, or None to leave it.

    Truth order: the runner's exit record, the runner's word, the backend's phase, absence. Doubt
    (``unknown``, silence) never ends a run; absence does, after a grace.
    """
    wanted = _wanted(status, facts, cancel_requested)
    if wanted is None or wanted.status == status or wanted.status not in TRANSITIONS[status]:
        return None
    return wanted


def verdict(exit: ExitRecord) -> Decision:
    """How a run ends, given its exit record."""
    if exit.setup_error is not None:
        return Decision(Status.FAILED, Reason.SETUP_FAILED)
    if exit.timed_out:
        return Decision(Status.FAILED, Reason.TIME_LIMIT)
    if exit.canceled:
        return Decision(Status.CANCELED, Reason.CANCELED)
    if exit.lost:
        return Decision(Status.FAILED, Reason.RUNNER_LOST)
    if exit.exit_code == 0:
        return Decision(Status.COMPLETED, Reason.SUCCEEDED)
    if exit.out_of_memory:
        return Decision(Status.FAILED, Reason.OUT_OF_MEMORY)
    if exit.signal:
        return Decision(Status.FAILED, Reason.SIGNAL)
    return Decision(Status.FAILED, Reason.EXIT_CODE)


def _wanted(status: Status, facts: Facts, cancel_requested: bool) -> Optional[Decision]:
    if status.terminal:
        return None
    if facts.exit is not None:
        if facts.exit.lost and cancel_requested:
            return Decision(Status.CANCELED, Reason.CANCELED)
        end = verdict(facts.exit)
        if facts.exit.no_room and facts.elsewhere and facts.number < MOST_ATTEMPTS:
            again = Status.CANCELED if cancel_requested else Status.QUEUED
            return Decision(again, Reason.CANCELED if cancel_requested else Reason.NODE_UNUSABLE)
        if end.reason is Reason.RUNNER_LOST and _to_be_tried_again(facts):
            return Decision(Status.QUEUED, Reason.RUNNER_LOST)
        return end
    if facts.phase is Phase.GONE:
        if facts.gone_for_s < GONE_GRACE_S:
            return None
        if cancel_requested:
            return Decision(Status.CANCELED, Reason.CANCELED)
        return Decision(Status.FAILED, Reason.RUNNER_LOST)
    if facts.stage is None:
        return None
    if facts.silent_for_s > SILENCE_LIMIT_S:
        return Decision(Status.NOT_RESPONDING)
    return Decision(_BY_STAGE[facts.stage])


def _to_be_tried_again(facts: Facts) -> bool:
    """Whether nothing of the user's was executed, as the node has proven and nobody denies."""
    proven = facts.exit is not None and facts.exit.unstarted
    return proven and facts.stage in (None, Stage.PREPARING) and facts.number < MOST_ATTEMPTS
