"""The loop that drives every run of one target, from rows alone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from wherry.core.errors import (
    LaunchRefusedError,
    NodeUnavailableError,
    TargetUnavailableError,
    WherryError,
)
from wherry.core.gang import PREEMPTED
from wherry.core.lifecycle import Decision, Observation, Phase, Reason, Status
from wherry.core.placement import Placement
from wherry.core.resources import Resources
from wherry.core.targets import LOCAL
from wherry.core.text import clean
from wherry.drivers.base import Driver, Handle, Health, Reporting, Rescuer
from wherry.store import attempts, leases, queues, runs

from . import attempt_tokens, costs, launch, run_logs
from .admission import Admission, Admitted
from .clearing import Clearing
from .cluster_admission import ClusterAdmission
from .clusters import Cluster
from .deliveries import Delivery, deliver, receive
from .exits import exit_record
from .hearing import CANCELED, GONE
from .plane import ABSENCE, Plane
from .settle import finish, settle
from .wakeup import Wakeup

log = logging.getLogger(__name__)

LEASE_S = 30.0
TICK_S = 1.0
LOOK_EVERY_S = 2.0
QUIET_S = 8.0
FORCE_MARGIN_S = 5.0
CLIENT_SILENCE = timedelta(minutes=10)
CLIENT_LIMIT = timedelta(days=7)
CHECK_EVERY_S = 60.0


class Reconciler:
    """One thread per target. Everything it needs to go on after a kill is in the rows.

    A turn takes what runners handed over and gives the room to the next: one transaction, then the
    driver's calls with none open. A tick is a turn and a look at everything else. What a turn has
    started is noted by the next transaction; where a kill comes first, the driver adopts it.
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
        self._delivered: list[Delivery] = []
        self._unnoted: dict[str, dict[str, Any]] = {}
        self._cluster = cluster
        self._admission: Admission | ClusterAdmission = (
            cluster.admission if cluster is not None else Admission(plane, target)
        )
        self._clearing = Clearing(plane, target, driver, self._alone)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"reconcile-{target}", daemon=True)
        self._lease_until = 0.0
        self._health: Health | None = None
        self._checked_at = float("-inf")
        self._looked_at: dict[str, float] = {}
        self._swept_at = float("-inf")
        self._last_tick: datetime | None = None
        self._trouble: TargetUnavailableError | None = None
        self._complaint = ""

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
        if self._cluster is not None:
            self.hint()
        elif not self._admission.held_back:
            self._wake.ring()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.ring()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._admission.withdraw()
        with self._plane.write() as connection:
            leases.drop(connection, _lease_name(self._target), self._plane.owner)

    def tick(self) -> None:
        """A whole pass. Safe to call at any time, from a fresh process, any number of times."""
        self._notice_absence()
        if not self._hold_lease():
            return
        self._trouble, self._complaint = None, ""
        self._ticked_at = time.monotonic()
        self._admission.withdraw_late()
        self._try(self._cancel_queued)
        self._try(self._turn)
        with self._plane.database.read() as connection:
            live = attempts.live(connection, self._target)
        self._try(self._adopt, [each for each in live if each.handle is None])
        started = [each for each in live if each.handle is not None]
        self._try(self._cancel, started)
        self._try(self._look, started)
        self._try(self._sweep)
        self._try(self._visit)
        if self._cluster is not None:
            self._try(self._cluster.tick)
        self._tell()
        if self._trouble is not None:
            raise self._trouble

    def _visit(self) -> None:
        """A machine elsewhere is asked though no run needs it: what is wrong is told in time."""
        if self._cluster is None and self._target != LOCAL:
            self._plane.machines[self._target] = self._capacity()

    def _tell(self) -> None:
        """What is wrong with the target is shown on it, as long as it is."""
        told = self._trouble.message if self._trouble is not None else self._complaint
        if told:
            self._plane.problems[self._target] = told
        else:
            self._plane.problems.pop(self._target, None)

    def turn(self) -> None:
        """The part of a pass for which short runs wait."""
        if self._hold_lease():
            self._turn()

    def _try(self, step: Callable[..., None], *arguments: Any) -> None:
        """A disk too full to start anything is freed by clearing away what ended."""
        try:
            step(*arguments)
        except TargetUnavailableError as error:
            self._trouble = error

    def _loop(self) -> None:
        pause = TICK_S
        while not self._stopping.is_set():
            self._wake.sleep(pause)
            asked, self._asked = self._asked, False
            try:
                if asked or time.monotonic() - self._ticked_at >= TICK_S:
                    self.tick()
                else:
                    self.turn()
                pause = TICK_S
            except TargetUnavailableError as error:
                log.warning("target %s: %s", self._target, error.message)
                pause = min(pause * 2, 30.0)
            except runs.StaleError:
                self.hint()
            except Exception:  # the loop outlives whatever one pass meets
                if self._stopping.is_set():
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

    @contextmanager
    def _alone(self, run_id: str, attempt_id: str) -> Iterator[None]:
        """What one attempt meets here does not keep the others waiting."""
        try:
            yield
        except NodeUnavailableError as error:
            self._complaint = error.message  # the other nodes have nothing to do with it
        except TargetUnavailableError:
            raise
        except runs.StaleError:
            self.hint()  # it changed meanwhile: look again
        except SQLAlchemyError:
            raise
        except Exception:  # one run's trouble, whatever it is
            log.exception("attempt %s of run %s", attempt_id, run_id)

    def _hold_lease(self) -> bool:
        if time.monotonic() < self._lease_until - LEASE_S / 2:
            return True
        now = self._plane.now()
        with self._plane.write() as connection:
            name = _lease_name(self._target)
            held = leases.claim(connection, name, self._plane.owner, now, LEASE_S)
        self._lease_until = time.monotonic() + LEASE_S if held else 0.0
        return held

    def _turn(self) -> None:
        self._delivered += receive(self._plane, self._driver)
        handed_over = [delivery.attempt_id for delivery in self._delivered]
        for admitted in self._admission.successors(handed_over):
            self._begin(admitted)
        for admitted in self._record():
            self._begin(admitted)

    def _begin(self, admitted: Admitted) -> None:
        with self._alone(admitted.run.id, admitted.attempt_id):
            attempt_tokens.started(self._plane, admitted.attempt_id)
            self._start(*admitted)

    def _record(self) -> list[Admitted]:
        """One transaction: what was handed over, what was started, and who is next."""
        if not self._delivered and not self._unnoted and not self._anyone_queued():
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
        with self._plane.write() as connection:
            notes = dict(self._unnoted)
            for delivery in self._delivered:
                deliver(self._plane, connection, delivery, notes.pop(delivery.attempt_id, {}))
            for attempt_id, facts in notes.items():
                attempts.change(connection, attempt_id, facts)
            burst = bool(self._delivered)
            chosen = self._admission.admit(connection, health, burst=burst) if health else None
        self._delivered, self._unnoted = [], {}
        return self._admission.admitted(chosen) if chosen else []

    def _deliver_one_by_one(self) -> None:
        """Each once: what cannot be settled so is looked at like all others."""
        delivered, self._delivered = self._delivered, []
        for each in delivered:
            with self._alone(each.run_id, each.attempt_id), self._plane.write() as connection:
                deliver(self._plane, connection, each, self._unnoted.get(each.attempt_id, {}))

    def _anyone_queued(self) -> bool:
        with self._plane.database.read() as connection:
            return bool(queues.head(connection, self._target, 1))

    def _adopt(self, waiting: list[Any]) -> None:
        """Start the attempts that nobody knows to be started: a kill came between, or an outage.

        What had been started before a kill is not started again, even if it has ended since.
        """
        for attempt in waiting:
            if attempt.id in self._unnoted or self._admission.waits(attempt.id):
                continue
            with self._alone(attempt.run_id, attempt.id):
                with self._plane.database.read() as connection:
                    run = runs.get(connection, attempt.run_id)
                self._start(run, attempt.id, _place_of(attempt))

    def _start(self, run: Any, attempt_id: str, place: Placement) -> None:
        try:
            handle = self._driver.submit(launch.build(self._plane, run, attempt_id, place))
        except LaunchRefusedError as error:
            self._refused(run.id, attempt_id, error)
        except TargetUnavailableError as error:
            self._note(attempt_id, {"detail": clean(error.message)})
            raise
        else:
            self._unnoted[attempt_id] = {"handle": handle, "detail": ""}
            self._admission.started(attempt_id, place)
            self._clearing.started()

    def _refused(self, run_id: str, attempt_id: str, error: LaunchRefusedError) -> None:
        with self._plane.write() as connection:
            run = runs.get(connection, run_id, lock=True)
            if run.node_count > 1:
                self._refused_member(connection, attempt_id, error)
                return
            refusal = Decision(Status.FAILED, Reason.LAUNCH_REFUSED)
            finish(self._plane, connection, run, refusal, detail=clean(error.message))
            now = self._plane.now()
            attempts.change(connection, attempt_id, {"ended_at": now, "released_at": now})
            attempt = attempts.get(connection, attempt_id)
            if attempt.node_id is not None:
                costs.attempt_ended(connection, run, attempt, now)

    def _refused_member(
        self, connection: Connection, attempt_id: str, error: LaunchRefusedError
    ) -> None:
        """One node of several: the others are to end first."""
        record = exit_record({"setup_error": clean(error.message)})
        changes = {"exit": dict(record.__dict__), "released_at": self._plane.now()}
        settle(self._plane, connection, attempts.get(connection, attempt_id), changes)

    def _cancel_queued(self) -> None:
        """Those that were asked to end and had to queue again."""
        with self._plane.database.read() as connection:
            if not queues.to_cancel(connection, self._target):
                return
        with self._plane.write() as connection:
            for run in queues.to_cancel(connection, self._target):
                finish(self._plane, connection, run, Decision(Status.CANCELED, Reason.CANCELED))

    def _cancel(self, started: list[Any]) -> None:
        """First ask, and after the grace insist."""
        wanted = [each for each in started if each.cancel_requested_at or each.stop_wanted_at]
        now = self._plane.now()
        for attempt in wanted:
            patience_s = self._patience_s(attempt)
            asked_s = self._plane.hearing.lasting_s(attempt.id, CANCELED)
            with self._alone(attempt.run_id, attempt.id):
                if attempt.cancel_sent_at is None:
                    self._driver.cancel(Handle(attempt.handle))
                    self._note(attempt.id, {"cancel_sent_at": now})
                elif asked_s > patience_s:
                    self._driver.cancel(Handle(attempt.handle), force=True)
                    if attempt.force_sent_at is None:
                        self._note(attempt.id, {"force_sent_at": now})

    def _patience_s(self, attempt: Any) -> float:
        given_s = self._plane.settings.cancel_grace_s
        if attempt.stop_reason == PREEMPTED and attempt.cancel_requested_at is None:
            given_s = max(given_s, launch.PREEMPTION_GRACE_S)
        return given_s + FORCE_MARGIN_S

    def _look(self, started: list[Any]) -> None:
        """Ask the backend about the attempts whose runner is not heard, and settle them all."""
        due = [attempt for attempt in started if self._due(attempt)]
        if not due:
            return
        seen = self._driver.observe([Handle(attempt.handle) for attempt in due])
        for attempt in due:
            found = seen.get(Handle(attempt.handle), Observation(Phase.UNKNOWN))
            if found.phase is Phase.UNKNOWN and found.detail:
                self._complaint = found.detail
            with self._alone(attempt.run_id, attempt.id):
                self._settle(attempt, found)

    def _settle(self, attempt: Any, observation: Observation) -> None:
        if observation.phase in (Phase.EXITED, Phase.GONE):
            with self._plane.database.read() as connection:
                attempt = attempts.get(connection, attempt.id)  # it may have reported before
        if observation.phase in (Phase.EXITED, Phase.GONE) and attempt.exit is None:
            if self._rescue(attempt):
                return
            self._collect_log(attempt)
        elif observation.phase is Phase.RUNNING and self._quiet(attempt):
            self._rescue(attempt)  # the command may run on without its runner
        with self._plane.write() as connection:
            known = attempts.get(connection, attempt.id)
            settle(self._plane, connection, known, self._changes(known, observation))

    def _rescue(self, attempt: Any) -> bool:
        """Whether someone is at work who sends what the runner could not any more."""
        if not isinstance(self._driver, Rescuer):
            return False
        with self._plane.database.read() as connection:
            run = runs.get(connection, attempt.run_id)
        try:
            request = launch.build(self._plane, run, attempt.id, _place_of(attempt))
        except LaunchRefusedError:  # the server's key was replaced: what is seen must do
            return False
        return self._driver.rescue(request)

    def _due(self, attempt: Any) -> bool:
        """Doubt is a reason to look, though not all the time; so is an attempt not seen before."""
        now = time.monotonic()
        asked = attempt.cancel_sent_at is not None
        quiet = self._quiet(attempt)
        looked_at = self._looked_at.get(attempt.id)
        if looked_at is None:
            due = quiet or attempt.created_at <= self._plane.started_at
        else:
            doubtful = attempt.stage is None or asked or quiet
            due = doubtful and now - looked_at >= LOOK_EVERY_S
        if due or looked_at is None:
            self._looked_at[attempt.id] = now
        return due

    def _quiet(self, attempt: Any) -> bool:
        return self._plane.hearing.quiet_s(attempt.id) > QUIET_S

    def _changes(self, attempt: Any, observation: Observation) -> dict[str, Any]:
        changes: dict[str, Any] = {
            "phase": observation.phase.value,
            "detail": clean(observation.detail),
        }
        if observation.phase is Phase.GONE:
            changes["gone_since"] = attempt.gone_since or self._plane.now()
        elif observation.phase is not Phase.UNKNOWN:
            changes["gone_since"] = None
            self._plane.hearing.over(attempt.id, GONE)
        known = attempt.exit is not None
        if observation.exit is not None and observation.phase is Phase.EXITED and not known:
            changes["exit"] = dict(exit_record(observation.exit.__dict__).__dict__)
        return changes

    def _collect_log(self, attempt: Any) -> None:
        """Fetch what the runner could not push any more."""
        key = run_logs.key(attempt.run_id, attempt.id)
        handle = Handle(attempt.handle)
        while True:
            size = self._plane.logs.size(key)
            data = self._driver.read_log(handle, size, 1 << 20)
            if not data:
                return
            self._plane.logs.append(key, size, data)
            self._plane.changed(attempt.run_id)

    def _sweep(self) -> None:
        """Now and then: clear away what ended, and look for clients that are gone."""
        now = time.monotonic()
        if now - self._swept_at < LOOK_EVERY_S:
            return
        self._swept_at = now
        self._clear_away()
        self._forget_clients()

    def _clear_away(self) -> None:
        # Of a cluster, those who wait may wait for a node that leaves when it is cleared.
        held_back = self._admission.held_back and self._cluster is None
        for attempt in self._clearing.sweep(held_back=held_back):
            self._looked_at.pop(attempt.id, None)
            self._admission.ended(attempt.id)
            self._plane.hearing.forget(attempt.id)

    def _forget_clients(self) -> None:
        now = self._plane.now()
        if now - self._plane.attentive_since < CLIENT_SILENCE:
            return
        with self._plane.database.read() as connection:
            silent = runs.silent_since(connection, now - CLIENT_SILENCE)
        for run in silent:
            lost = run.heartbeat_at < now - CLIENT_LIMIT
            status = Status.FAILED if lost else Status.NOT_RESPONDING
            if run.status == status.value:
                continue
            with self._plane.write() as connection:
                row = runs.get(connection, run.id, lock=True)
                if row.heartbeat_at != run.heartbeat_at or row.version != run.version:
                    continue
                decision = Decision(status, Reason.CLIENT_LOST if lost else None)
                finish(self._plane, connection, row, decision)

    def _capacity(self) -> Health:
        now = time.monotonic()
        if self._health is None or now - self._checked_at > CHECK_EVERY_S:
            self._health = self._driver.check()
            self._checked_at = now
        return self._health

    def _note(self, attempt_id: str, facts: Mapping[str, Any]) -> None:
        with self._plane.write() as connection:
            attempts.change(connection, attempt_id, facts)


def claim_targets(plane: Plane) -> None:
    """Refuse a database that another home's server works with: its files are in that home."""
    with plane.write() as connection:
        for target in plane.drivers:
            name = _lease_name(target)
            if not leases.claim(connection, name, plane.owner, plane.now(), LEASE_S):
                raise WherryError(
                    f"the database is in use by the server of {leases.owner(connection, name)}",
                    hint="two homes cannot share a database: stop the other server, "
                    f"wait {LEASE_S:.0f} s if it was killed, or set another WHERRY_DATABASE_URL",
                )


def _lease_name(target: str) -> str:
    return f"target:{target}"


def _place_of(attempt: Any) -> Placement:
    gpus = tuple(attempt.gpus)
    owned = Resources(attempt.cpu, attempt.memory_bytes, len(gpus))
    return Placement(attempt.run_id, owned, gpus, attempt.node_id or "", attempt.rank)
