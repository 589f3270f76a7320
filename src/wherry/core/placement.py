"""Which queued runs start now on one machine: a pure function of the queue and what is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

from .resources import Resources


@dataclass(frozen=True)
class Waiting:
    """A queued run and what it asks for."""

    run_id: str
    resources: Resources


@dataclass(frozen=True)
class Placement:
    """A run that may start, and the GPUs it gets; on a cluster one of its nodes."""

    run_id: str
    resources: Resources
    gpus: Tuple[str, ...] = ()
    node: str = ""
    rank: int = 0


@dataclass(frozen=True)
class Used:
    """What one active attempt holds."""

    resources: Resources
    gpus: Tuple[str, ...] = ()


def place(
    queue: Sequence[Waiting], total: Resources, gpus: Sequence[str], used: Sequence[Used]
) -> List[Placement]:
    """The head of the queue that fits, in order: what does not fit holds back what follows."""
    free = free_of(total, used)
    idle_gpus = [gpu for gpu in gpus if not any(gpu in held.gpus for held in used)]
    placed: List[Placement] = []
    for waiting in queue:
        wanted = waiting.resources
        if not wanted.fits(free) or wanted.gpu > len(idle_gpus):
            break
        mine, idle_gpus = tuple(idle_gpus[: wanted.gpu]), idle_gpus[wanted.gpu :]
        free = free - wanted
        placed.append(Placement(waiting.run_id, wanted, mine))
    return placed


def free_of(total: Resources, used: Sequence[Used]) -> Resources:
    return total - sum((held.resources for held in used), Resources(0, 0, 0))
