"""Why a run of a cluster waits, in one sentence."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Dict, List, Optional, Sequence

from .nodes import NodeState, NodeView, busy, counts

_NAMED = 2


def for_nodes(
    wanted: int,
    target: str,
    nodes: Sequence[NodeView],
    max_nodes: int,
    *,
    ahead: int = 0,
    kept_for: str = "",
    kept_from: Optional[float] = None,
    site_room: Optional[int] = None,
    crowded: str = "its site has no room for more",
    problem: str = "",
) -> str:
    """``needs 2 nodes of cpu-cluster; 1 idle, 1 busy until run X ends, limit 2``.

    ``kept_for``: the run before it that idle nodes are kept for, and ``kept_from`` when that one
    has all it needs at the latest, where this is known; ``crowded``: who has the room of a site
    that has none left; ``problem``: what is wrong with unusable nodes, or with the target.
    """
    needs = f"needs {_nodes(wanted)} of {target}"
    if wanted > max_nodes:
        return f"{needs}, which may have {max_nodes} at most: raise its max_nodes, or ask for fewer"
    have = ", ".join([*_states(nodes, _kept(kept_for, kept_from)), f"limit {max_nodes}"])
    more = [
        f"{_runs(ahead)} before it" if ahead else "",
        crowded if _no_room(wanted, nodes, max_nodes, site_room) else "",
        problem,
    ]
    return "; ".join([needs, have, *filter(None, more)])


def _kept(kept_for: str, kept_from: Optional[float]) -> str:
    if not kept_for:
        return ""
    if kept_from is None:
        return f" (kept for run {kept_for})"
    moment = datetime.fromtimestamp(kept_from, timezone.utc)
    return f" (kept for run {kept_for}, from {moment:%Y-%m-%d %H:%M:%S} UTC at the latest)"


def _states(nodes: Sequence[NodeView], kept: str) -> List[str]:
    found = counts(nodes)
    words: Dict[NodeState, str] = {
        NodeState.IDLE: f"idle{kept}",
        NodeState.RUNNING: f"busy{_until(nodes)}",
        NodeState.PREPARING: "being prepared",
        NodeState.LEAVING: "leaving",
        NodeState.PREEMPTED: "preempted",
        NodeState.UNUSABLE: "unusable",
    }
    told = [f"{found[state.value]} {word}" for state, word in words.items() if found[state.value]]
    return told or ["none made yet"]


def _until(nodes: Sequence[NodeView]) -> str:
    runs = [each.run_id for each in busy(_running(nodes)) if each.run_id]
    if not runs:
        return ""
    if len(runs) == 1:
        return f" until run {runs[0]} ends"
    *first, last = [f"run {run_id}" for run_id in runs[:_NAMED]]
    rest = len(runs) - _NAMED
    if rest > 0:
        first, last = [*first, last], "another" if rest == 1 else f"one of {rest} others"
    return f" until {', '.join(first)} or {last} ends"


def _running(nodes: Sequence[NodeView]) -> List[NodeView]:
    return [node for node in nodes if node.state == NodeState.RUNNING]


def _no_room(
    wanted: int, nodes: Sequence[NodeView], max_nodes: int, site_room: Optional[int]
) -> bool:
    if site_room is None or len(nodes) >= max_nodes:
        return False
    found = counts(nodes)
    return found["idle"] + found["preparing"] + site_room < wanted


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _runs(count: int) -> str:
    return "1 run is" if count == 1 else f"{count} runs are"
