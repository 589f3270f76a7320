"""The targets that this server looks after: reconcilers come and go with compute targets."""

from __future__ import annotations

import gc
import logging
import threading
from functools import partial
from typing import Any

from sqlalchemy import Row

from wherry.core.compute_configs import CLUSTER, INSTANCE, LOCATED
from wherry.core.errors import TargetUnavailableError, WherryError
from wherry.core.placement import Used, free_of
from wherry.core.resources import Resources
from wherry.core.targets import LOCAL, sharing
from wherry.drivers.base import Closing
from wherry.store import attempts, computes

from . import machines
from .clusters import Cluster
from .computes import finish_removal
from .instances import Instance
from .lost_machines import LostMachines
from .machines import CREATING, SUCCEEDED
from .plane import Plane
from .reconciler import Reconciler
from .workers import Workers

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
_LEAVING_EVERY_S = 0.5


class Targets:
    """One reconciler for each target that there is. Which there are is in the rows.

    Another server with the same database may look after the same: the lease of a target says who
    works. A thread of its own makes and stops reconcilers, since none can stop itself.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._drivers = plane.drivers = dict(plane.drivers)
        self._static = set(self._drivers)
        self._reconcilers = {
            name: Reconciler(plane, name, driver) for name, driver in self._drivers.items()
        }
        self._known: dict[str, tuple[Any, ...]] = {}
        self._workers = Workers()
        self._lost = LostMachines(plane)
        self._leaving = False
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="targets", daemon=True)

    def start(self) -> None:
        self._plane.hint = self.hint
        self._plane.hint_queued = self.hint_queued
        self._plane.computes_changed = self._changed.set
        for reconciler in list(self._reconcilers.values()):
            reconciler.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        for target in list(self._reconcilers):
            self._drop(target)

    def hint(self, target: str) -> None:
        reconciler = self._reconcilers.get(target)
        if reconciler is not None:
            reconciler.hint()

    def hint_queued(self, target: str) -> None:
        reconciler = self._reconcilers.get(target)
        if reconciler is not None:
            reconciler.hint_queued()
        else:
            self._changed.set()

    def look(self) -> None:
        """Make the reconcilers of new targets, end those of targets that are gone."""
        with self._plane.database.read() as connection:
            rows = {row.target: row for row in computes.every(connection)}
        self._leaving = any(row.deleting_at is not None for row in rows.values())
        for target, row in rows.items():
            if row.deleting_at is not None and finish_removal(self._plane, target):
                continue
            if target in self._reconcilers and self._is_another(row):
                self._drop(target)
            if target not in self._reconcilers and self._attached(row):
                self._add_safely(row)
        gone = set(self._reconcilers) - self._static - set(rows)
        for target in gone:
            self._drop(target)
        self._lost.look()
        if gone:
            gc.collect()  # their pipes and connections go with them, not at some later time

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                self.look()
            except Exception:  # the loop outlives whatever one look meets
                log.exception("a look at the compute targets failed")
            self._changed.wait(_LEAVING_EVERY_S if self._leaving else LOOK_EVERY_S)

    def _add_safely(self, row: Row[Any]) -> None:
        """What one target lacks is told on it, and keeps no other waiting."""
        try:
            self._add(row)
        except WherryError as error:
            self._plane.problems[row.target] = error.message

    def _add(self, row: Row[Any]) -> None:
        kinds: dict[str, type[Cluster]] = {CLUSTER: Cluster, INSTANCE: Instance}
        cluster = kinds[row.kind](self._plane, row.target) if row.kind in kinds else None
        driver = cluster.driver if cluster is not None else machines.driver(self._plane, row)
        self._drivers[row.target] = driver
        self._known[row.target] = _way_to(row)
        reconciler = Reconciler(self._plane, row.target, driver, cluster)
        self._reconcilers[row.target] = reconciler
        reconciler.start()
        reconciler.hint()

    def _attached(self, row: Row[Any]) -> bool:
        """Whether the machine may be used; one that was not looked at yet is, beside this."""
        if row.provisioning_state == CREATING:
            self._workers.do(row.target, partial(machines.attach, self._plane, row))
        return bool(row.kind in LOCATED or row.provisioning_state == SUCCEEDED)

    def _is_another(self, row: Row[Any]) -> bool:
        """Whether it has taken the place of one that had its name, or is reached in another way."""
        return self._known.get(row.target, _way_to(row)) != _way_to(row)

    def _drop(self, target: str) -> None:
        reconciler = self._reconcilers.pop(target)
        reconciler.stop()
        for known in (self._plane.problems, self._plane.rooms, self._plane.shortages):
            known.pop(target, None)
        self._plane.claims.pop(target, None)
        if target not in self._static:
            driver = self._drivers.pop(target)
            self._known.pop(target, None)
            if isinstance(driver, Closing):
                driver.close()


def _way_to(row: Row[Any]) -> tuple[Any, ...]:
    """Those that have nodes look themselves at what is configured."""
    return (row.id, row.kind, *(() if row.kind in LOCATED else (row.config, row.secrets)))


def every(plane: Plane) -> list[dict[str, Any]]:
    """What is there without anybody's doing, as people see it: what it owns, what is free."""
    return [_describe(plane, LOCAL)]


def _describe(plane: Plane, name: str) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "kind": name, "nodes": [], "problem": None}
    try:
        health = plane.drivers[name].check()
    except TargetUnavailableError as error:
        return {**described, "problem": error.message}
    with plane.database.read() as connection:
        held = [
            Used(Resources(row.cpu, row.memory_bytes, len(row.gpus)), tuple(row.gpus))
            for each in sharing(name)
            for row in attempts.active(connection, each)
        ]
    total = sum((node.resources for node in health.nodes), Resources(0, 0, 0))
    described["nodes"] = [
        {"name": node.name, **node.resources.__dict__, "gpus": list(node.gpus)}
        for node in health.nodes
    ]
    return {**described, "free": dict(free_of(total, held).__dict__), "active": len(held)}
