"""Which node has which host of a pool: in the node's row, so that no two ever have the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wherry.core.compute_configs import HostConfig
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.store import homes, lost_machines, nodes, sites

from . import sightings
from .plane import Plane
from .sightings import Place


class HostClaims:
    def __init__(self, plane: Plane, site: str) -> None:
        self._plane = plane
        self._site = site

    def taken(self) -> Mapping[str, Mapping[str, Any]]:
        with self._plane.database.read() as connection:
            present = sites.nodes_at(connection, self._site)
            lost = lost_machines.at_site(connection, self._site)
        return {node.id: node.config for node in [*present, *lost] if node.config}

    def take(self, node_id: str, hosts: Sequence[HostConfig]) -> HostConfig | None:
        with self._plane.write() as connection:
            sites.find(connection, self._site, lock=True)
            present = sites.nodes_at(connection, self._site)
            mine = [_place(node.config) for node in present if node.id == node_id and node.config]
            lost = lost_machines.at_site(connection, self._site)
            given = [node for node in [*present, *lost] if node.id != node_id and node.config]
            others = {_place(node.config) for node in given}
            free = [host for host in hosts if (host.address, host.port) not in others]
            kept = [host for host in free if (host.address, host.port) in mine]
            chosen = next(iter([*kept, *free]), None)
            if chosen is not None:
                known = {"config": chosen.to_dict(), "name": chosen.name}
                nodes.change(connection, node_id, known)
        return chosen

    def give_back(self, node_id: str) -> None:
        with self._plane.write() as connection:
            nodes.change(connection, node_id, {"config": {}})

    def home(self, home: str) -> Mapping[str, Any]:
        with self._plane.database.read() as connection:
            row = homes.find(connection, home)
        return row.config if row is not None else {}

    def settle(self, home: str, host: HostConfig) -> None:
        with self._plane.write() as connection:
            homes.settle(connection, home, {"address": host.address, "port": host.port})

    def pin(self, host: HostConfig, keys: Mapping[str, Any]) -> None:
        with self._plane.write() as connection:
            row = sites.find(connection, self._site, lock=True)
            if row is None:
                return
            kept = [
                {**each, **keys} if _place(each) == (host.address, host.port) else each
                for each in row.config["hosts"]
            ]
            sites.change(connection, self._site, {"config": {**row.config, "hosts": kept}})

    def saw(self, host: HostConfig, owned: Resources) -> None:
        sightings.see(self._plane.sightings, self._at(host), self._plane.now(), owned)

    def missed(self, host: HostConfig, error: TargetUnavailableError) -> None:
        sightings.miss(self._plane.sightings, self._at(host), self._plane.now(), error)

    def trouble(self, host: HostConfig) -> float:
        known = self._plane.sightings.get(self._at(host))
        return known.at.timestamp() if known is not None and known.reason else 0.0

    def owned(self, host: HostConfig) -> Resources | None:
        known = self._plane.sightings.get(self._at(host))
        return known.owned if known is not None else None

    def _at(self, host: HostConfig) -> Place:
        return self._site, host.address, host.port


def _place(config: Mapping[str, Any]) -> tuple[str, int]:
    return config["address"], config["port"]
