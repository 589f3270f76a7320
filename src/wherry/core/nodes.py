"""A cluster's nodes as Azure ML's words describe them, seen at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, List, Optional, Sequence

from .scheduling import Busy


class NodeState(str, Enum):
    PREPARING = "preparing"
    IDLE = "idle"
    RUNNING = "running"
    UNUSABLE = "unusable"
    LEAVING = "leaving"
    PREEMPTED = "preempted"


@dataclass(frozen=True)
class NodeView:
    """One node. ``since``: when it came into its state; ``tries``: starts that failed in a row.

    ``run_id`` and ``until`` are those of the run that holds it.
    """

    id: str
    state: NodeState
    idle_since: Optional[float] = None
    tries: int = 0
    since: float = 0.0
    run_id: Optional[str] = None
    until: Optional[float] = None


def counts(nodes: Sequence[NodeView]) -> Dict[str, int]:
    """How many there are of each state, the absent ones included."""
    found = {state.value: 0 for state in NodeState}
    for node in nodes:
        found[node.state.value] += 1
    return found


def of(nodes: Sequence[NodeView], *states: NodeState) -> List[NodeView]:
    return [node for node in nodes if node.state in states]


def idle(nodes: Sequence[NodeView]) -> List[NodeView]:
    """Those that were used last come first, so that the others grow old and leave."""
    found = of(nodes, NodeState.IDLE)
    return sorted(found, key=lambda node: (-(node.idle_since or 0.0), node.id))


def busy(nodes: Sequence[NodeView]) -> List[Busy]:
    """The runs that hold nodes, each with all of them."""
    runs: Dict[str, List[NodeView]] = {}
    for node in of(nodes, NodeState.RUNNING):
        runs.setdefault(node.run_id or f"node {node.id}", []).append(node)
    return [
        Busy([each.id for each in held], _until(held), held[0].run_id or "")
        for held in runs.values()
    ]


def _until(held: Sequence[NodeView]) -> Optional[float]:
    ends = [node.until for node in held if node.until is not None]
    return max(ends) if len(ends) == len(held) else None
