"""Which low-priority nodes go when dedicated runs need their place: a pure function."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from .nodes import NodeState, NodeView, busy, by_state, freshest


def evict(wanted: int, nodes: Sequence[NodeView]) -> Tuple[str, ...]:
    """As many of these low-priority nodes as are wanted, those first that cost the least work.

    What leaves already or was preempted before comes free by itself, and counts first. Then go
    nodes that are idle or not ready, then those of the runs that came to their nodes last, run by
    run: a run that loses one node starts again as a whole.
    """
    found = by_state(nodes)
    wanted -= len(found[NodeState.LEAVING]) + len(found[NodeState.PREEMPTED])
    spare = [*reversed(freshest(found[NodeState.IDLE])), *found[NodeState.PREPARING]]
    chosen = [node.id for node in spare]
    for run in _youngest_first(found[NodeState.RUNNING]):
        chosen += run
    return tuple(chosen[: max(0, wanted)])


def _youngest_first(running: Sequence[NodeView]) -> List[List[str]]:
    since = {node.id: node.since for node in running}
    runs = [list(each.node_ids) for each in busy(running)]
    return sorted(runs, key=lambda held: (-max(since[node] for node in held), held))
