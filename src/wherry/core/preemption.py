"""Which low-priority nodes go when dedicated runs need their place: a pure function."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from .nodes import NodeState, NodeView, busy, idle, of


def evict(wanted: int, nodes: Sequence[NodeView]) -> Tuple[str, ...]:
    """As many of these low-priority nodes as are wanted, those first that cost the least work.

    What leaves already or was preempted before comes free by itself, and counts first. Then go
    nodes that are idle or not ready, then those of the runs that came to their nodes last, run by
    run: a run that loses one node starts again as a whole.
    """
    wanted -= len(of(nodes, NodeState.LEAVING, NodeState.PREEMPTED))
    spare = [*reversed(idle(nodes)), *of(nodes, NodeState.PREPARING)]
    chosen = [node.id for node in spare]
    for run in _youngest_first(nodes):
        chosen += run
    return tuple(chosen[: max(0, wanted)])


def _youngest_first(nodes: Sequence[NodeView]) -> List[List[str]]:
    since = {node.id: node.since for node in nodes}
    runs = [list(each.node_ids) for each in busy(nodes)]
    return sorted(runs, key=lambda held: (-max(since[node] for node in held), held))
