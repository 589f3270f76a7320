"""Machines that were declared lost and come back: what they still run is ended and cleared away."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import Row

from wherry.core.errors import TargetUnavailableError
from wherry.drivers import registry
from wherry.drivers.base import Closing, Driver, Handle
from wherry.drivers.ssh_host import Host
from wherry.store import lost_machines, sites

from . import sealing
from .machines import node_root
from .plane import Plane
from .site_opening import secrets_of
from .workers import Workers

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0
# Longer than any repair; what opens a machine that was detached is not kept for ever.
_REMEMBERED = timedelta(days=30)


class LostMachines:
    """Each is asked now and then. The driver stays: it knows when it was last refused."""

    def __init__(self, plane: Plane, workers: Workers | None = None) -> None:
        self._plane = plane
        self._workers = workers or Workers()
        self._drivers: dict[str, tuple[Any, Driver]] = {}
        self._looked_at: dict[str, float] = {}

    def look(self) -> None:
        with self._plane.database.read() as connection:
            rows = lost_machines.every(connection)
        for machine_id in set(self._drivers) - {row.id for row in rows}:
            self._let_go(machine_id)
        now = time.monotonic()
        for row in rows:
            if now - self._looked_at.get(row.id, float("-inf")) >= _LOOK_EVERY_S:
                self._looked_at[row.id] = now
                self._workers.do(row.id, partial(self._clear, row))

    def _clear(self, row: Row[Any]) -> None:
        try:
            driver = self._driver(row)
            reach(driver)
            for handle in row.handles:
                driver.release(Handle(handle))
        except (TargetUnavailableError, sealing.UnsealError):
            if self._plane.now() - row.given_up_at < _REMEMBERED or self._is_of_a_site(row):
                return
        else:
            log.warning("%s answers again, and is cleared", row.config["address"])
        with self._plane.write() as connection:
            lost_machines.remove(connection, row.id)
        self._plane.hint(row.target)
        self._plane.computes_changed()

    def _driver(self, row: Row[Any]) -> Driver:
        way = known_way(self._plane, row)
        if row.id in self._drivers and self._drivers[row.id][0] != way:
            self._let_go(row.id)
        if row.id not in self._drivers:
            self._drivers[row.id] = (way, host_driver(self._plane, *way))
        return self._drivers[row.id][1]

    def _is_of_a_site(self, row: Row[Any]) -> bool:
        """Its host waits to be used again."""
        with self._plane.database.read() as connection:
            site = sites.find(connection, row.site)
        return site is not None and _host_at(site, row.config) is not None

    def _let_go(self, machine_id: str) -> None:
        _, driver = self._drivers.pop(machine_id)
        self._looked_at.pop(machine_id, None)
        if isinstance(driver, Closing):
            driver.close()


def host_driver(
    plane: Plane, config: Mapping[str, Any], secrets: Mapping[str, str], server: str = ""
) -> Driver:
    """Without ``server`` there is no way back: nobody there is to report anything."""
    made: Driver = registry.load("ssh")(Host.of(config, secrets), node_root(plane), server)
    return made


def reach(driver: Driver) -> None:
    """Whether it answers; one whose disk is full does."""
    try:
        driver.check()
    except TargetUnavailableError as error:
        if error.fields.get("cause") not in ("disk_full", "home"):
            raise


def sealed(plane: Plane, machine_id: str, secrets: Mapping[str, str]) -> str | None:
    """What opens it, kept until it is cleared, whatever becomes of its site or target."""
    if not secrets:
        return None
    return sealing.seal(plane.secret, f"lost machine {machine_id}", dict(secrets))


def known_way(plane: Plane, row: Row[Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """How it is reached: as its site says now, else as it was."""
    with plane.database.read() as connection:
        site = sites.find(connection, row.site) if row.site else None
    host = _host_at(site, row.config) if site is not None else None
    if site is not None and host is not None:
        return host, secrets_of(plane, site)
    if row.secrets is None:
        return row.config, {}
    return row.config, sealing.unseal(plane.secret, f"lost machine {row.id}", row.secrets)


def _host_at(site: Row[Any], config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    place = (config["address"], config["port"])
    hosts: list[Mapping[str, Any]] = site.config["hosts"]
    return next((host for host in hosts if (host["address"], host["port"]) == place), None)
