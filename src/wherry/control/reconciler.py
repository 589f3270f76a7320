"""The loop that drives every run of one target, from rows alone."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from wherry.core.errors import TargetUnavailableError
from wherry.core.targets import BUILT_IN, LOCAL
from wherry.drivers.base import Driver, Health, Knowing, Reporting, Tidying
from wherry.store import attempts, queues, runs

from .admission import Admission, Admitted
from .clearing import Clearing
from .clients import forget_silent
from .clusters import Cluster
from .deliveries import Delivery, deliver, receive
from .machine_admission import MachineAdmission
from .plane import ABSENCE, Plane
from .returning import Unsent
from .standby import DEPTH, Standby
from .starting import Starting
from .stopping import Stopping
from .target_lease import TargetLease
from .troubles import Troubles
from .wakeup import Wakeup
from .watching import Watching

log = logging.getLogger(__name__)

TICK_S = 1.0
REST_S = 5.0
SWEEP_EVERY_S = 2.0
CHECK_EVERY_S = 60.0
TIDY_EVERY_S = 15.0
GATHER_S = 0.05


class Reconciler:
    """One thread per target. Everything it needs to go on after a kill is in the rows.

    A turn takes what runners handed over and gives the room to the next: one transaction, then the
    driver's calls with none open. A tick is a turn and a look at everything else.
    """

    def __init__(
        self, plane: Plane, target: str, driver: Driver, cluster: Cluster | None = None
    ) -> None:
        self._plane = plane
        self._target = target
        self._driver = driver
        self._wake = Wakeup(*([driver.inbox()] if isinstance(driver, Reporting) else []))
        self._asked = False
        self._ticked_at = float("-inf")
        self._swept_at = self._tidy_at = float("-inf")
        self._last_tick: datetime | None = None
        self._health: Health | None = None
        self._checked_at = float("-inf")
        self._delivered: list[Delivery] = []
        self._delivered_at = 0.0
        self._gathering = False
        self._cluster = cluster
        self._room = plane.room if target in BUILT_IN else nullcontext()
        self._lease = TargetLease(plane, target)
        self._troubles = Troubles(plane, target, self.hint)
        knowing = plane.database.is_sqlite and isinstance(driver, Knowing)
        self._standby = Standby(plane, DEPTH if knowing else 1)
        self._admission: Admission = (
            cluster.admission if cluster else MachineAdmission(plane, target, self._standby)
        )
        self._clearing = Clearing(plane, target, driver, self._troubles)
        self._starting = Starting(
            plane,
            driver,
            self._standby,
            self._clearing,
            self._troubles,
            Unsent(plane, self._lease),
        )
        self._stopping = Stopping(plane, target, driver, self._troubles)
        self._watching = Watching(plane, driver, self._troubles)
        self.resting = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"reconcile-{target}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hint(self) -> None:
        """Something asks for a look at everything."""
        self._asked = True
        self._wake.ring()

    def hint_queued(self) -> None:
        """A run has joined the queue: news only where those before it do not wait themselves.

        On a cluster it may be a reason for another node.
        """
        self._plane.at_rest.discard(self._target)
        if self._cluster is not None:
            self.hint()
        elif not self._admission.held_back:
            self._wake.ring()

    def stop(self) -> None:
        self._ended.set()
        self._wake.ring()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        if self._delivered and not self._thread.is_alive():
            with suppress(SQLAlchemyError, runs.StaleError):  # the next server finds it by looking
                self._write(None)
        self._standby.withdraw()
        self._lease.drop()

    def tick(self) -> None:
        """A whole pass. Safe to call at any time, from a fresh process, any number of times."""
        self._notice_absence()
        if not self._lease.hold():
            return
        self._troubles.clear()
        self._ticked_at = time.monotonic()
        self._standby.withdraw_late()
        outlive = self._troubles.outlive
        outlive(self._stopping.cancel_queued)
        outlive(partial(self._turn, whole=True))
        with self._plane.database.read() as connection:
            live = attempts.live(connection, self._target)
        outlive(self._starting.adopt, [each for each in live if each.handle is None])
        started = [each for each in live if each.handle is not None]
        outlive(self._stopping.cancel, started)
        outlive(self._watching.look, started)
        outlive(self._sweep)
        outlive(self._visit)
        if self._cluster is not None:
            outlive(self._cluster.tick)
        self.resting = not live and self._has_nothing_to_do()
        if self.resting and self._target in BUILT_IN:
            self._plane.at_rest.add(self._target)
        self._troubles.conclude()

    def _has_nothing_to_do(self) -> bool:
        """Until someone hints. Of this machine, and by servers that share a database, nobody may
        be told.
        """
        told = self._target != LOCAL and self._plane.database.is_sqlite
        empty = self._cluster is None or self._cluster.scaling.empty
        return told and empty and not self._anyone_queued()

    def _visit(self) -> None:
        """A machine elsewhere is asked though no run needs it: what is wrong is told in time. This
        one is tidied up.
        """
        if self._cluster is None and self._target not in BUILT_IN:
            self._plane.machines[self._target] = self._capacity()
        elif isinstance(self._driver, Tidying) and self._ticked_at >= self._tidy_at:
            self._tidy_at = self._ticked_at + TIDY_EVERY_S
            self._driver.tidy()

    def turn(self) -> None:
        """The part of a pass for which short runs wait."""
        if self._lease.hold():
            self._turn()

    def _loop(self) -> None:
        pause = TICK_S
        while not self._ended.is_set():
            self._wake.sleep(GATHER_S if self._gathering else pause)
            asked, self._asked = self._asked, False
            try:
                if asked or time.monotonic() - self._ticked_at >= TICK_S:
                    self.tick()
                else:
                    self.turn()
                pause = REST_S if self.resting else TICK_S
            except TargetUnavailableError as error:
                log.warning("target %s: %s", self._target, error.message)
                pause = min(pause * 2, 30.0)
            except runs.StaleError:
                self.hint()
            except Exception:  # the loop outlives whatever one pass meets
                if self._ended.is_set():
                    return
                log.exception("target %s: a pass failed", self._target)
                pause = min(pause * 2, 30.0)

    def _notice_absence(self) -> None:
        """Nobody was heard while this process was suspended: their silence starts anew."""
        now = self._plane.now()
        if self._last_tick is None or not timedelta(0) <= now - self._last_tick <= ABSENCE:
            self._plane.attentive_since = now
            self._plane.hearing.was_away()
        self._last_tick = self._plane.last_pass = now

    def _turn(self, *, whole: bool = False) -> None:
        """While runs stand by, a few ends are gathered and recorded together: nobody needs room."""
        if not self._delivered:
            self._delivered_at = time.monotonic()
        self._delivered += receive(self._plane, self._target, self._driver)
        handed_over = [delivery.attempt_id for delivery in self._delivered]
        try:
            for admitted in self._standby.successors(handed_over):
                self._starting.begin(admitted)
            self._gathering = not whole and self._may_gather()
            for admitted in () if self._gathering else self._record():
                self._starting.begin(admitted)
        except TargetUnavailableError:
            self._health = None  # nobody is given what cannot be reached
            raise

    def _may_gather(self) -> bool:
        waiting = self._delivered and self._standby.waiting and not self._ended.is_set()
        return bool(waiting) and time.monotonic() - self._delivered_at < GATHER_S

    def _record(self) -> list[Admitted]:
        """One transaction: what was handed over, what was started, and who is next."""
        if not self._delivered and not self._starting.unnoted and not self._anyone_queued():
            self._admission.held_back = False  # whoever waited was canceled
            return []
        trouble, health = None, None
        try:
            health = self._capacity()
        except TargetUnavailableError as error:
            trouble = error
        try:
            admitted = self._write(health)
        except (SQLAlchemyError, runs.StaleError):
            raise
        except Exception:  # one of those that were handed over, whatever is wrong with it
            self._deliver_one_by_one()
            raise
        if trouble is not None:
            raise trouble
        return admitted

    def _write(self, health: Health | None) -> list[Admitted]:
        with self._room, self._plane.write() as connection:
            notes = dict(self._starting.unnoted)
            for delivery in self._delivered:
                deliver(self._plane, connection, delivery, notes.pop(delivery.attempt_id, {}))
            for attempt_id, facts in notes.items():
                attempts.change(connection, attempt_id, facts)
            burst = bool(self._delivered)
            chosen = self._admission.admit(connection, health, burst=burst) if health else None
        self._delivered, self._starting.unnoted = [], {}
        if chosen is None:
            return []
        self._standby.follow(chosen.following)
        return chosen.starting

    def _deliver_one_by_one(self) -> None:
        """Each once: what cannot be settled so is looked at like all others."""
        delivered, self._delivered = self._delivered, []
        for each in delivered:
            alone = self._troubles.alone(each.run_id, each.attempt_id)
            with alone, self._plane.write() as connection:
                noted = self._starting.unnoted.get(each.attempt_id, {})
                deliver(self._plane, connection, each, noted)

    def _anyone_queued(self) -> bool:
        with self._plane.database.read() as connection:
            return bool(queues.head(connection, self._target, 1))

    def _sweep(self) -> None:
        """Now and then: clear away what ended, and look for clients that are gone."""
        now = time.monotonic()
        if now - self._swept_at < SWEEP_EVERY_S:
            return
        self._swept_at = now
        self._clear_away()
        forget_silent(self._plane)

    def _clear_away(self) -> None:
        # Of a cluster, those who wait may wait for a node that leaves when it is cleared.
        held_back = self._admission.held_back and self._cluster is None
        for attempt in self._clearing.sweep(held_back=held_back):
            self._watching.forget(attempt.id)
            self._standby.ended(attempt.id)

    def _capacity(self) -> Health:
        now = time.monotonic()
        if self._health is None or now - self._checked_at > CHECK_EVERY_S:
            self._health = self._driver.check()
            self._checked_at = now
        return self._health
