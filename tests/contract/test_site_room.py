"""Two clusters on one site never count the same room for themselves, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tests.contract.test_compute_store import node
from tests.planes import make_plane
from wherry.control import computes
from wherry.control.plane import Plane
from wherry.control.site_room import SiteRoom
from wherry.core.vm_sizes import Size
from wherry.drivers.base import Driver
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.drivers.sites import Machine
from wherry.store import computes as rows
from wherry.store import nodes, sites
from wherry.store.database import Database

SIZE = Size("small", 1.0)


class OneHost:
    """Where one machine can be had."""

    def sizes(self) -> Sequence[Size]:
        return [SIZE]

    def room(self, size: Size) -> int:
        return int(size == SIZE)

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        return sum(each == size for each in promised)

    def machines(self) -> Mapping[str, Machine]:
        return {}

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        raise NotImplementedError

    def forget(self, home: str) -> None:
        raise NotImplementedError

    def remove(self, node_id: str) -> None:
        raise NotImplementedError

    def driver(self, node_id: str, machine: Machine) -> Driver:
        raise NotImplementedError


def promise(plane: Plane, connection: Connection, room: SiteRoom, target: str) -> int:
    """As many nodes as there is room for."""
    row = rows.find(connection, target, lock=True)
    assert row is not None
    left = room.left(connection, row, alone=True)
    fields: dict[str, Any] = {"target": target, "site": "local", "state": nodes.PREPARING}
    if left:
        new = [node(f"{target}-{n}", **fields, size="small") for n in range(left)]
        nodes.add(connection, new)
    return left


def test_who_comes_second_finds_no_room(tmp_path: Path, database: Database) -> None:
    plane = make_plane(tmp_path, {"local": MemoryDriver(MemoryBackend())}, database)
    for name in ("one", "two"):
        computes.put(plane, "w", name, {"type": "AmlCompute", "config": {"max_nodes": 1}})
    first, second = (SiteRoom(plane, OneHost(), SIZE) for _ in range(2))
    found: list[int] = []

    def race() -> None:
        with plane.write() as connection:
            found.append(promise(plane, connection, second, "w/two"))

    racing = threading.Thread(target=race)
    with plane.write() as connection:
        found.append(promise(plane, connection, first, "w/one"))
        racing.start()
        racing.join(timeout=1)  # it waits for this transaction
        assert found == [1]
    racing.join()
    assert found == [1, 0]
    with plane.database.read() as connection:
        assert len(sites.nodes_at(connection, "local")) == 1
