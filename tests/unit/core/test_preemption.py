"""When dedicated runs need the place, low-priority nodes go: first those that cost no work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wherry.core.nodes import NodeState, NodeView
from wherry.core.preemption import evict


def view(name: str, state: str, since: float = 0.0, run_id: str | None = None) -> NodeView:
    idle_since = since if state == "idle" else None
    return NodeView(name, NodeState(state), idle_since, 0, since, run_id)


NODES = [
    view("old-1", "running", 1, "old"),
    view("young-1", "running", 9, "young"),
    view("young-2", "running", 9, "young"),
    view("warm", "idle", 5),
    view("cold", "idle", 2),
    view("coming", "preparing", 8),
]


def test_the_least_work_is_lost() -> None:
    assert evict(1, NODES) == ("cold",)
    assert evict(3, NODES) == ("cold", "warm", "coming")
    assert evict(5, NODES) == ("cold", "warm", "coming", "young-1", "young-2")
    assert evict(9, NODES)[-1] == "old-1"


def test_what_goes_already_is_counted() -> None:
    going = [view("a", "leaving"), view("b", "preempted")]
    assert evict(2, [*NODES, *going]) == ()
    assert evict(3, [*NODES, *going]) == ("cold",)


@given(
    st.lists(st.tuples(st.sampled_from(list(NodeState)), st.floats(0, 9)), max_size=9),
    st.integers(-1, 12),
)
def test_never_more_than_wanted_and_never_twice(
    kinds: list[tuple[NodeState, float]], wanted: int
) -> None:
    nodes = [view(f"n{n}", state.value, since) for n, (state, since) in enumerate(kinds)]
    gone = evict(wanted, nodes)
    assert len(gone) == len(set(gone)) <= max(0, wanted)
    by_id = {node.id: node.state for node in nodes}
    assert all(by_id[each] in ("idle", "preparing", "running") for each in gone)
