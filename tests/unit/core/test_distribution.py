"""Where the processes of a run are, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.core.distribution import parse, roles, serves
from wherry.core.errors import UserErrorException


def tensorflow(workers: int, servers: int) -> dict[str, Any]:
    return {"type": "tensorflow", "worker_count": workers, "parameter_server_count": servers}


def test_every_count_is_filled_in() -> None:
    assert parse(None, 3) is None
    assert parse({"type": "MPI"}, 2) == {"type": "mpi", "processes_per_node": 1}
    assert parse({"type": "tensorflow"}, 2) == tensorflow(2, 0)


@pytest.mark.parametrize(
    ("given", "nodes", "said"),
    [
        ("mpi", 1, "no known type"),
        ({"type": "ray"}, 1, "no known type"),
        ({"type": "mpi", "worker_count": 2}, 1, "type mpi has no field 'worker_count'"),
        ({"type": "mpi", "processes_per_node": 0}, 1, "processes_per_node is 0"),
        ({"type": "mpi", "processes_per_node": 1.5}, 1, "processes_per_node is 1.5"),
        ({"type": "pytorch", "processes_per_node": True}, 1, "processes_per_node is True"),
        ({"type": "pytorch", "processes_per_node": 10_000}, 1, "from 1 to 256"),
        (tensorflow(1, 1), 3, "1 workers and 1 parameter servers for 3 nodes"),
    ],
)
def test_what_cannot_be_is_refused(given: Any, nodes: int, said: str) -> None:
    with pytest.raises(UserErrorException, match=said):
        parse(given, nodes)


def test_processes_lie_on_nodes_evenly() -> None:
    assert roles(None, 2) == [["worker"], ["worker"]]
    assert roles({"type": "pytorch", "processes_per_node": 2}, 2) == [["worker"] * 2] * 2
    assert roles(tensorflow(3, 2), 2) == [["worker", "worker", "ps", "ps"], ["worker"]]
    assert roles(tensorflow(2, 1), 1) == [["worker", "worker", "ps"]]


def test_parameter_servers_have_the_nodes_that_are_left() -> None:
    found = roles(tensorflow(2, 3), 4)
    assert found == [["worker"], ["worker"], ["ps", "ps"], ["ps"]]
    assert [serves(each) for each in found] == [False, False, True, True]
