"""A cluster's parts in one place: site, drivers of nodes, admission, scaling."""

from __future__ import annotations

from datetime import datetime

from wherry.core.compute_configs import site_name
from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.resources import Resources
from wherry.drivers.base import Driver
from wherry.drivers.fleet import Fleet, WarmFleet
from wherry.drivers.site_local import LocalSite
from wherry.drivers.sites import Machine, Site
from wherry.store import computes, nodes, sites

from . import homes
from .admission import Admission
from .cluster_admission import ClusterAdmission
from .plane import Plane
from .scaling import Scaling
from .site_opening import open_site
from .turns import Turns
from .workers import Workers


class Cluster:
    def __init__(
        self, plane: Plane, target: str, site: Site | None = None, workers: Workers | None = None
    ) -> None:
        self._plane = plane
        self._target = target
        self._site = site
        self._opened: tuple[str, datetime] | None = None
        self._drivers: dict[str, Driver] = {}
        turns = Turns(plane, target)
        self.scaling = Scaling(
            plane, target, self.site, self._driver_of, self._forget, workers or Workers(), turns
        )
        scaling = self.scaling
        self.admission: Admission = ClusterAdmission(plane, target, lambda: scaling.room, turns)
        self.driver = self._fleet()

    def site(self) -> Site:
        """Opened when it is first needed, and again where that failed."""
        if self._site is None:
            with self._plane.database.read() as connection:
                row = computes.find(connection, self._target)
                if row is None:
                    raise TargetUnavailableError(f"compute target {self._target} is gone")
                name = site_name(row.config["location"])
                known = sites.find(connection, name)
            self._opened = (name, known.modified_at) if known is not None else None
            self._site = open_site(self._plane, name, row)
        return self._site

    def tick(self) -> None:
        """After a look whether the site is another one by now."""
        if self._opened is not None:
            name, modified_at = self._opened
            with self._plane.database.read() as connection:
                known = sites.find(connection, name)
            if known is None or known.modified_at != modified_at:
                self._site = None
                self._drivers.clear()
                self.scaling.forgive()
        try:
            self.scaling.tick()
            self._forget_home()
        except LaunchRefusedError as error:  # its secrets were sealed with another key
            raise TargetUnavailableError(error.message, hint=error.hint) from None

    def _forget_home(self) -> None:
        with self._plane.database.read() as connection:
            row = computes.find(connection, self._target)
        if row is not None:
            homes.forget(self._plane, row, self.site())

    def _fleet(self) -> Fleet:
        try:
            site = self.site()
        except TargetUnavailableError:
            return Fleet(self._driver_of)
        if isinstance(site, LocalSite):
            return WarmFleet(self._driver_of, site.warm, site.close)
        return Fleet(self._driver_of)

    def _driver_of(self, node_id: str) -> Driver | None:
        driver = self._drivers.get(node_id)
        if driver is not None:
            return driver
        with self._plane.database.read() as connection:
            node = nodes.find(connection, node_id)
        if node is None or node.removed_at is not None or node.ready_at is None:
            return None
        owned = Resources(node.cpu, node.memory_bytes, len(node.gpus))
        machine = Machine(node.name, owned, tuple(node.gpus), node.config)
        self._drivers[node_id] = self.site().driver(node_id, machine)
        return self._drivers[node_id]

    def _forget(self, node_id: str) -> None:
        self._drivers.pop(node_id, None)
