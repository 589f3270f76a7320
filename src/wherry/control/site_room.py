"""How many more nodes a site can give to a cluster, counted so that no two take the same room."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import INSTANCE, may_be_taken, site_name
from wherry.core.targets import LOCAL
from wherry.core.vm_sizes import Size
from wherry.drivers.sites import Site
from wherry.store import computes, nodes, sites
from wherry.store.database import take_turns

from .plane import Plane
from .turns import given_to_others


class SiteRoom:
    """A look at a site, and what the rows have promised of it, then and since.

    Machines are looked at before the room: one that is made meanwhile counts twice, never not at
    all.
    """

    def __init__(self, plane: Plane, site: Site, size: Size) -> None:
        self._plane = plane
        self._site = site
        self.size = size
        self._sizes = {each.name: each for each in site.sizes()}
        self._made = frozenset(site.machines())
        self._seen = site.room(size)

    def left(self, connection: Connection, row: Row[Any], *, alone: bool = False) -> int:
        """With ``alone``, others who count for this site wait until this transaction is done."""
        name = site_name(row.config["location"])
        if name == LOCAL and row.kind == INSTANCE:
            return 1  # it shares this machine with all that runs here
        if alone:
            take_turns(connection, f"site {name}")
        promised = [
            self._size_of(node)
            for node in sites.nodes_at(connection, name)
            if node.id not in self._made and node.state != nodes.UNUSABLE
            if name != LOCAL or not _is_shared(connection, node)
        ]
        promised += given_to_others(self._plane, row)
        room = self._seen - self._site.taken_by(promised, self.size)
        if may_be_taken(row.config):
            for site, size, short in list(self._plane.shortages.values()):
                if site == name:
                    room -= self._site.taken_by([size] * short, self.size)
        return max(0, room)

    def is_held_by(self, node: Row[Any]) -> bool:
        """Whether there is more room for this size once that node is away."""
        return self._site.taken_by([self._size_of(node)], self.size) > 0

    def fits_in_place_of(self, node: Row[Any]) -> bool:
        """Whether a node of this size can be made where that one is now."""
        return self._site.taken_by([self.size], self._size_of(node)) == 1

    def _size_of(self, node: Row[Any]) -> Size:
        known = self._sizes.get(node.size)
        return known or Size(node.size, node.cpu, node.memory_bytes)


def _is_shared(connection: Connection, node: Row[Any]) -> bool:
    row = computes.find(connection, node.target)
    return row is not None and row.kind == INSTANCE
