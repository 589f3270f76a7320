"""A cluster's nodes as Azure ML's words describe them, seen at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Iterable, List, Optional, Sequence

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


def by_state(nodes: Sequence[NodeView]) -> Dict[NodeState, List[NodeView]]:
    """All states, those of no node included."""
    return {state: [node for node in nodes if node.state == state] for state in NodeState}


def counts(nodes: Sequence[NodeView]) -> Dict[str, int]:
    """How many there are of each state, as Azure ML shows them."""
    return {state.value: len(found) for state, found in by_state(nodes).items()}


def freshest(idle: Sequence[NodeView]) -> List[NodeView]:
    """Those that were used last come first, so that the others grow old and leave."""
    return sorted(idle, key=lambda node: (-(node.idle_since or 0.0), node.id))


def busy(running: Iterable[NodeView]) -> List[Busy]:
    """The runs that hold these nodes, each with all of them."""
    ids: Dict[str, List[str]] = {}
    ends: Dict[str, Optional[float]] = {}
    names: Dict[str, str] = {}
    for node in running:
        key = node.run_id or node.id
        if key in ids:
            ids[key].append(node.id)
            ends[key] = _later(ends[key], node.until)
        else:
            ids[key], ends[key], names[key] = [node.id], node.until, node.run_id or ""
    return [Busy(held, ends[key], names[key]) for key, held in ids.items()]


def _later(one: Optional[float], other: Optional[float]) -> Optional[float]:
    return None if one is None or other is None else max(one, other)
