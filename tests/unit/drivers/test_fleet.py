"""One node's trouble is its own."""

from __future__ import annotations

import pytest

from wherry.core.errors import LaunchRefusedError, NodeUnavailableError
from wherry.core.lifecycle import Phase
from wherry.drivers.base import Driver, Handle, Launch
from wherry.drivers.fleet import Fleet
from wherry.drivers.memory import MemoryBackend, MemoryDriver


def test_a_node_that_cannot_be_reached_says_nothing_of_the_others() -> None:
    worlds = {name: MemoryBackend() for name in ("a", "b")}
    fleet = Fleet(lambda node: MemoryDriver(worlds[node]) if node in worlds else None)
    handles = {name: fleet.submit(Launch(f"on-{name}", ["x"], node=name)) for name in worlds}
    gone = Handle('{"node": "c", "handle": "{}"}')
    worlds["a"].down = True
    seen = fleet.observe([*handles.values(), gone])
    assert seen[handles["a"]].phase is Phase.UNKNOWN
    assert seen[handles["a"]].detail == "the memory backend is down"
    assert seen[handles["b"]].phase is Phase.PENDING
    assert seen[gone].phase is Phase.GONE
    with pytest.raises(NodeUnavailableError, match="is down"):
        fleet.cancel(handles["a"])
    fleet.cancel(handles["b"])
    fleet.release(gone)
    assert fleet.read_log(gone, 0) == b""


def test_nothing_starts_on_a_node_that_is_gone() -> None:
    nodes: dict[str, Driver] = {}
    with pytest.raises(LaunchRefusedError, match="its node n is gone"):
        Fleet(nodes.get).submit(Launch("a", ["x"], node="n"))
