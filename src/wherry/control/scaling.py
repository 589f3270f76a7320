"""How many nodes a cluster has: rows first, then machines, by what ``core.autoscale`` says.

A row says what is to be: ``preparing`` has a machine made, ``leaving`` has it removed. Whoever is
killed in between leaves the row, and both are done again without harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.autoscale import TRIES, Actions, backoff_s
from wherry.core.compute_configs import may_be_taken, site_name
from wherry.core.errors import TargetUnavailableError, UserErrorException, WherryError
from wherry.core.ids import new_uuid
from wherry.core.resources import Resources
from wherry.core.text import clean
from wherry.core.vm_sizes import Size, nearest
from wherry.drivers.base import Driver, Remote
from wherry.drivers.sites import Machine, Site
from wherry.store import computes, nodes, sites

from . import costs, homes, sightings
from .cluster_views import ClusterView
from .evictions import make_room
from .plane import Plane
from .site_room import SiteRoom
from .turns import Turns
from .workers import Workers

log = logging.getLogger(__name__)

_REMEMBERED = timedelta(days=1)
_CHECK_EVERY_S = 60.0
_LOOK_AGAIN_S = 15.0


class Scaling:
    """``site`` may fail to open, which is the target's problem until it does not."""

    def __init__(
        self,
        plane: Plane,
        target: str,
        site: Callable[[], Site],
        driver_of: Callable[[str], Driver | None],
        forget: Callable[[str], None],
        workers: Workers,
        turns: Turns,
    ) -> None:
        self._plane = plane
        self._target = target
        self._site = site
        self._driver_of = driver_of
        self._forget = forget
        self._workers = workers
        self._turns = turns
        self._checked_at: dict[str, float] = {}
        self._swept = False
        self.room: int | None = None
        self.empty = False

    def tick(self) -> None:
        """Decide, write it down, and have it done."""
        with self._plane.database.read() as connection:
            row = computes.find(connection, self._target)
            if row is None:
                return
        size = self._size(row)
        self._sweep(row)
        room = SiteRoom(self._plane, self._site(), size)
        with self._plane.database.read() as connection:
            self.room = self._plane.rooms[self._target] = room.left(connection, row)
            row = computes.find(connection, self._target)
            wanted = self._decide(connection, row) if row is not None else Actions()
            short = self._shortage(connection, row, wanted) if row is not None else 0
            self._claim(connection, row, room, 0 if wanted.make else short)
        if wanted != Actions():
            self._write(size, room)
        self._want(row, short, room)
        self._give(row)
        self._work(size)

    def forgive(self) -> None:
        """The site was changed: nodes that could not be made or used may be now."""
        self._checked_at = dict.fromkeys(self._checked_at, float("-inf"))
        with self._plane.write() as connection:
            for node in nodes.present(connection, self._target):
                if node.state in (nodes.PREPARING, nodes.UNUSABLE) and node.tries:
                    nodes.change(connection, node.id, {"tries": 0})

    def _sweep(self, row: Row[Any]) -> None:
        """Once: machines without a row are nobody's. A row comes before its machine."""
        if self._swept:
            return
        found = self._site().machines()
        with self._plane.database.read() as connection:
            known = {node.id for node in sites.nodes_at(connection, _site_of(row))}
        for node_id in set(found) - known:
            self._site().remove(node_id)
        self._swept = True

    def _shortage(self, connection: Connection, row: Row[Any], wanted: Actions) -> int:
        """How many nodes a dedicated cluster would make besides, if only there were room."""
        if may_be_taken(row.config):
            return 0
        return self._decide(connection, row, unlimited=True).make - wanted.make

    def _want(self, row: Row[Any] | None, short: int, room: SiteRoom) -> None:
        """What those of low priority have to give; until it is here, they take no more."""
        if row is None or short <= 0:
            self._plane.shortages.pop(self._target, None)
            return
        self._plane.shortages[self._target] = (_site_of(row), room.size, short)
        with self._plane.write() as connection:
            givers = make_room(self._plane, connection, row, short, room.is_held_by)
        for target in givers:
            self._plane.hint(target)

    def _claim(
        self, connection: Connection, row: Row[Any] | None, room: SiteRoom, short: int
    ) -> None:
        """What the others of the site are to give back, as their runs end."""
        if row is None or short <= 0:
            self._turns.drop()
            return
        view = ClusterView(self._plane, connection, row)
        self._turns.claim(view, row, self.room or 0, room.size, room.fits_in_place_of)

    def _give(self, row: Row[Any] | None) -> None:
        """Idle nodes go at once to whom has more need of them."""
        if row is None or not self._turns.asked(row):
            return
        with self._plane.write() as connection:
            row = computes.find(connection, self._target, lock=True)
            if row is not None:
                view = ClusterView(self._plane, connection, row)
                self._turns.give(connection, row, view, view.queue(self.room))

    def _size(self, row: Row[Any]) -> Size:
        try:
            return nearest(row.config["vm_size"], self._site().sizes())[0]
        except UserErrorException as error:
            raise TargetUnavailableError(error.message, hint=error.hint) from None

    def _decide(self, connection: Connection, row: Row[Any], *, unlimited: bool = False) -> Actions:
        view = ClusterView(self._plane, connection, row)
        return view.decide(None if unlimited else self.room)

    def _write(self, size: Size, room: SiteRoom) -> None:
        """Decided again, with the cluster locked: nobody starts a run meanwhile, and nobody takes
        the room.
        """
        now = self._plane.now()
        with self._plane.write() as connection:
            row = computes.find(connection, self._target, lock=True)
            if row is None:
                return
            self.room = room.left(connection, row, alone=True)
            actions = self._decide(connection, row)
            if actions.make:
                new = [self._node(row, size, now) for _ in range(actions.make)]
                nodes.add(connection, new)
            for node_id in actions.remove:
                nodes.move(connection, node_id, nodes.LEAVING, now)
            for node_id in actions.retry:  # since when it is as it is stays: it is due at once
                nodes.change(connection, node_id, {"state": nodes.PREPARING})
        if actions.why:
            log.info("target %s: nodes: %s", self._target, actions.why)

    def _node(self, row: Row[Any], size: Size, now: datetime) -> dict[str, Any]:
        return {
            "id": new_uuid(),
            "target": self._target,
            "site": _site_of(row),
            "name": "",
            "state": nodes.PREPARING,
            "reason": "",
            "config": {},
            "cpu": size.cpu,
            "memory_bytes": size.memory_bytes,
            "gpus": [],
            "size": size.name,
            "price": size.price_per_hour,
            "tries": 0,
            "created_at": now,
            "state_since": now,
        }

    def _work(self, size: Size) -> None:
        """Have machines made and removed, each by one at a time."""
        with self._plane.database.read() as connection:
            present = nodes.present(connection, self._target)
            self.empty = not present
            for node_id in set(self._checked_at) - {node.id for node in present}:
                self._forget(node_id)  # one that was given up
                self._checked_at.pop(node_id, None)
                self._swept = False  # its machine may be there all the same
            for node in present:
                if node.state == nodes.PREPARING and self._due(node):
                    self._workers.do(node.id, partial(self._make, node, size))
                elif node.state in (nodes.LEAVING, nodes.PREEMPTED) and not nodes.has_traces(
                    connection, self._target, node.id
                ):
                    self._workers.do(node.id, partial(self._remove, node))
                elif node.state != nodes.PREPARING and self._to_be_checked(node):
                    self._workers.do(node.id, partial(self._check, node, size))

    def _to_be_checked(self, node: Row[Any]) -> bool:
        """Other machines, now and then: one that has gone is better found before a run is, and one
        that is there again is of use.
        """
        now = time.monotonic()
        again_s = _LOOK_AGAIN_S if node.tries <= TRIES else backoff_s(node.tries)
        every_s = _CHECK_EVERY_S if node.state == nodes.IDLE else again_s
        if now - self._checked_at.setdefault(node.id, now) < every_s:
            return False
        self._checked_at[node.id] = now
        return bool(node.config) and isinstance(self._driver_of(node.id), Remote)

    def _check(self, node: Row[Any], size: Size) -> None:
        try:
            self._have_it_up(node, size)
        except TargetUnavailableError as error:
            sightings.of_node(self._plane.sightings, node, self._plane.now(), error)
            reason = clean(error.message)
            if node.state in (nodes.LEAVING, nodes.PREEMPTED):
                return
            if error.fields.get("cause") == "gone":  # for sure: another can be made
                anew = {"reason": reason, "idle_since": None, "tries": 0}
                self._change_state(node, node.state, nodes.PREPARING, anew)
                return
            told: dict[str, Any] = {"reason": reason, "idle_since": None}
            told["tries"] = max(node.tries, TRIES)
            self._change_state(node, nodes.IDLE, nodes.UNUSABLE, told)
        else:
            sightings.of_node(self._plane.sightings, node, self._plane.now(), None)
            told = {"reason": "", "idle_since": self._plane.now()}
            self._change_state(node, nodes.UNUSABLE, nodes.IDLE, told)

    def _change_state(
        self, node: Row[Any], before: str, after: str, told: Mapping[str, Any]
    ) -> None:
        """Unless it is another by now, or at work."""
        if node.state != before:
            return
        with self._plane.write() as connection:
            computes.find(connection, self._target, lock=True)
            known = nodes.find(connection, node.id)
            busy = nodes.busy(connection, self._target)
            if known is not None and known.state == before and node.id not in busy:
                nodes.move(connection, node.id, after, self._plane.now(), **told)
        self._plane.hint(self._target)

    def _due(self, node: Row[Any]) -> bool:
        """One that failed is left alone for a while."""
        waited_s: float = (self._plane.now() - node.state_since).total_seconds()
        return not node.tries or waited_s >= backoff_s(node.tries)

    def _make(self, node: Row[Any], size: Size) -> None:
        try:
            if self._must_be_kept(node):
                machine = self._as_it_is(node, size)
            else:
                machine = self._site().make(node.id, size, self._home())
                self._forget(node.id)  # it may be another one than before
        except WherryError as error:
            self._plane.doings.pop(node.id, None)
            self._failed(node.id, error)
        else:
            self._plane.doings.pop(node.id, None)
            now = self._plane.now()
            with self._plane.write() as connection:
                known = nodes.find(connection, node.id)
                if known is not None and known.state == nodes.PREPARING:
                    owned = machine.resources
                    facts: dict[str, Any] = {
                        "name": machine.name,
                        "config": dict(machine.config),
                        "cpu": owned.cpu,
                        "memory_bytes": owned.memory_bytes,
                        "gpus": list(machine.gpus),
                        "reason": "",
                        "tries": 0,
                        "ready_at": now,
                        "idle_since": now,
                    }
                    nodes.move(connection, node.id, nodes.IDLE, now, **facts)
        self._plane.hint(self._target)

    def _home(self) -> str:
        with self._plane.database.read() as connection:
            row = computes.find(connection, self._target)
        return homes.ensure(self._plane, row) if row is not None else ""

    def _must_be_kept(self, node: Row[Any]) -> bool:
        """Whether what ended on the machine is still to be cleared: no other will do."""
        with self._plane.database.read() as connection:
            return nodes.has_traces(connection, self._target, node.id)

    def _as_it_is(self, node: Row[Any], size: Size) -> Machine:
        self._have_it_up(node, size)
        with self._plane.database.read() as connection:
            known = nodes.find(connection, node.id) or node
        owned = Resources(node.cpu, node.memory_bytes, len(node.gpus))
        return Machine(known.name, owned, node.gpus, known.config)

    def _check_there(self, node_id: str) -> None:
        driver = self._driver_of(node_id)
        if driver is not None:
            driver.check()

    def _have_it_up(self, node: Row[Any], size: Size) -> None:
        """One that has stopped with all that lies on it is started again, whatever it works for:
        that is told when it can be asked.
        """
        try:
            self._check_there(node.id)
        except TargetUnavailableError as error:
            if error.fields.get("cause") != "stopped":
                raise
            log.warning("target %s: %s; it is started again", self._target, error.message)
            self._start_again(node, size)
            self._check_there(node.id)

    def _start_again(self, node: Row[Any], size: Size) -> None:
        try:
            machine = self._site().make(node.id, size, self._home())
        finally:
            self._plane.doings.pop(node.id, None)
        self._forget(node.id)
        with self._plane.write() as connection:
            known = nodes.find(connection, node.id)
            if known is not None and known.removed_at is None:
                now_there = {"name": machine.name, "config": dict(machine.config)}
                nodes.change(connection, node.id, now_there)

    def _failed(self, node_id: str, error: WherryError) -> None:
        log.warning("target %s: a node was not made: %s", self._target, error.message)
        now = self._plane.now()
        with self._plane.write() as connection:
            known = nodes.find(connection, node_id)
            if known is None or known.state != nodes.PREPARING:
                return
            # With a host it is asked now and then, and need not be left alone for long.
            tries = min(known.tries + 1, TRIES) if known.config else known.tries + 1
            state = nodes.UNUSABLE if tries >= TRIES else nodes.PREPARING
            reason = clean(error.message)
            nodes.move(connection, node_id, state, now, tries=tries, reason=reason)

    def _remove(self, node: Row[Any]) -> None:
        try:
            self._site().remove(node.id)
        except WherryError as error:
            with self._plane.write() as connection:
                nodes.change(connection, node.id, {"reason": clean(error.message)})
            return
        self._forget(node.id)
        self._checked_at.pop(node.id, None)
        now = self._plane.now()
        with self._plane.write() as connection:
            row = computes.find(connection, self._target, lock=True)
            known = nodes.find(connection, node.id)
            if known is not None and known.removed_at is None:
                nodes.change(connection, node.id, {"removed_at": now})
                if row is not None:
                    costs.node_removed(connection, row.workspace_id, known, now)
            nodes.forget(connection, now - _REMEMBERED)
        self._plane.hint(self._target)
        if row is not None and row.deleting_at is not None:
            self._plane.computes_changed()


def _site_of(row: Row[Any]) -> str:
    return site_name(row.config["location"])
