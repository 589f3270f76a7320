"""How much of a site a cluster can have, and who has the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import SSH, cluster_of, site_name
from wherry.core.targets import LOCAL, name_of, workspace_of
from wherry.core.vm_sizes import Size
from wherry.drivers.sites import Site
from wherry.store import sites

_NAMED = 3


def crowded(connection: Connection, row: Row[Any]) -> str:
    """Of a cluster that gets no more nodes at present."""
    present = sites.nodes_at(connection, site_name(row.config["location"]))
    others = Counter(node.target for node in present if node.target != row.target)
    if not others:
        return f"its site has no room for more than {_nodes(len(present))}"
    named = [f"{_called(row, key)} has {_nodes(n)}" for key, n in others.most_common(_NAMED)]
    return f"its site has no room for more: {', '.join(named)} there"


def beyond(connection: Connection, row: Row[Any], site: Site, size: Size) -> str:
    """A notice where a cluster may have more nodes than its site could ever give."""
    name = site_name(row.config["location"])
    most = cluster_of(row.kind, row.config).max_nodes
    if name == LOCAL:
        whole = max(each.cpu for each in site.sizes())
        room = int(whole // size.cpu) if size.cpu else most
        has = f"this machine has room for {_nodes(room)} of size {size.name} at a time"
    else:
        known = sites.find(connection, name)
        if known is None or known.kind != SSH:
            return ""
        taken = [node for node in sites.nodes_at(connection, name) if node.size == size.name]
        room = site.room(size) + len(taken)
        has = f"site {name!r} has {room} host{'' if room == 1 else 's'} of size {size.name}"
    return f"{has}, fewer than max_nodes, {most}" if room < most else ""


def _called(row: Row[Any], key: str) -> str:
    return name_of(key) if workspace_of(key) == workspace_of(row.target) else key


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
