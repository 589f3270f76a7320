"""A unix socket of a node, reached from here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import dialling
from wherry.core.errors import NodeUnavailableError
from wherry.drivers.base import Driver
from wherry.drivers.fleet import Fleet
from wherry.drivers.local import LocalDriver


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a name that fits into the address of a socket."""
    with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
        yield Path(folder)


def test_on_this_machine_it_is_the_socket_itself(folder: Path) -> None:
    dialling.keeps_its_promises(LocalDriver(folder / "nodes"), folder)


def test_a_fleet_asks_the_node(folder: Path) -> None:
    nodes: dict[str, Driver] = {"n": LocalDriver(folder / "nodes")}
    fleet = Fleet(nodes.get)
    dialling.keeps_its_promises(fleet, folder, "n")
    with pytest.raises(NodeUnavailableError, match="node m: it is gone"):
        fleet.dial("/x", "m")
