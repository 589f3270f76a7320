"""Every run that waits for nodes says what for."""

from __future__ import annotations

import pytest

from wherry.core.nodes import NodeState, NodeView
from wherry.core.waiting import for_nodes


def view(state: str, run_id: str | None = None, name: str = "") -> NodeView:
    return NodeView(name or f"{state}-{run_id}", NodeState(state), run_id=run_id)


IDLE, BUSY = view("idle"), view("running", "X")


@pytest.mark.parametrize(
    ("wanted", "nodes", "most", "sentence"),
    [
        (
            2,
            [IDLE, BUSY],
            2,
            "needs 2 nodes of cpu-cluster; 1 idle, 1 busy until run X ends, limit 2",
        ),
        (1, [], 4, "needs 1 node of cpu-cluster; none made yet, limit 4"),
        (1, [view("preparing")], 4, "needs 1 node of cpu-cluster; 1 being prepared, limit 4"),
        (
            1,
            [BUSY, view("running", "Y"), view("running", "Z"), view("leaving")],
            4,
            "needs 1 node of cpu-cluster; 3 busy until run X, run Y or another ends, 1 leaving, "
            "limit 4",
        ),
        (
            1,
            [BUSY, *(view("running", name) for name in "YZW")],
            4,
            "needs 1 node of cpu-cluster; 4 busy until run X, run Y or one of 2 others ends, "
            "limit 4",
        ),
        (
            1,
            [BUSY, view("running", "Y")],
            2,
            "needs 1 node of cpu-cluster; 2 busy until run X or run Y ends, limit 2",
        ),
        (
            3,
            [IDLE],
            2,
            "needs 3 nodes of cpu-cluster, which may have 2 at most: "
            "raise its max_nodes, or ask for fewer",
        ),
    ],
)
def test_what_is_there_is_told(
    wanted: int, nodes: list[NodeView], most: int, sentence: str
) -> None:
    assert for_nodes(wanted, "cpu-cluster", nodes, most) == sentence


def test_whose_turn_it_is_and_what_is_wrong_are_told() -> None:
    told = for_nodes(1, "c", [IDLE, BUSY], 2, ahead=2, kept_for="big")
    assert told == (
        "needs 1 node of c; 1 idle (kept for run big), 1 busy until run X ends, limit 2; "
        "2 runs are before it"
    )
    told = for_nodes(1, "c", [view("unusable")], 1, problem="host a: the port is closed")
    assert told == "needs 1 node of c; 1 unusable, limit 1; host a: the port is closed"


def test_a_site_without_room_is_told() -> None:
    assert "no room" in for_nodes(2, "c", [IDLE], 4, site_room=0)
    assert "no room" not in for_nodes(2, "c", [IDLE], 4, site_room=1)
    assert "no room" not in for_nodes(2, "c", [IDLE], 4)
    assert "no room" not in for_nodes(2, "c", [IDLE, BUSY], 2, site_room=0)
    assert for_nodes(2, "c", [], 4, site_room=0, crowded="d has it").endswith("; d has it")


def test_a_run_with_many_nodes_is_named_once() -> None:
    nodes = [view("running", "X", "a"), view("running", "X", "b")]
    assert "2 busy until run X ends" in for_nodes(1, "c", nodes, 2)
    nodes = [view("running", None, "a")]
    assert for_nodes(1, "c", nodes, 1) == "needs 1 node of c; 1 busy, limit 1"
