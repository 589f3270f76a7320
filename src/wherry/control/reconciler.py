"""The loop that drives every run of one target, from rows alone."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from typing import Any

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.ids import new_uuid
from wherry.core.lifecycle import Decision, Observation, Phase, Reason, Status
from wherry.core.placement import Used, Waiting, place
from wherry.core.resources import Resources
from wherry.drivers.base import Driver, Handle, Health
from wherry.store import attempts, leases, runs

from . import launch
from .plane import Plane
from .reports import log_key
from .settle import finish, settle

log = logging.getLogger(__name__)

LEASE_S = 30.0
TICK_S = 1.0
LOOK_EVERY_S = 2.0
QUIET_S = 8.0
FORCE_MARGIN_S = 5.0
RELEASE_AFTER_S = 2.0
CLIENT_SILENCE = timedelta(minutes=10)
CLIENT_LIMIT = timedelta(days=7)
CHECK_EVERY_S = 60.0


class Reconciler:
    """One thread per target. Everything it needs to go on after a kill is in the rows.

    A tick reads what is due, calls the driver with no transaction open, and writes what came of
    it in short transactions guarded by the run's version.
    """

    def __init__(self, plane: Plane, target: str, driver: Driver) -> None:
        self._plane = plane
        self._target = target
        self._driver = driver
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"reconcile-{target}", daemon=True)
        self._lease_until = 0.0
        self._health: Health | None = None
        self._checked_at = float("-inf")
        self._looked_at: dict[str, float] = {}
        self._swept_at = float("-inf")

    def start(self) -> None:
        self._thread.start()

    def hint(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        with self._plane.write() as connection:
            leases.drop(connection, self._lease_name, self._plane.owner)

    def tick(self) -> None:
        """One pass. Safe to call at any time, from a fresh process, any number of times."""
        if not self._hold_lease():
            return
        self._admit()
        self._launch()
        self._cancel()
        self._look()
        self._sweep()

    def _loop(self) -> None:
        pause = TICK_S
        while not self._stopping.is_set():
            self._wake.wait(pause)
            self._wake.clear()
            try:
                self.tick()
                pause = TICK_S
            except TargetUnavailableError as error:
                log.warning("target %s: %s", self._target, error.message)
                pause = min(pause * 2, 30.0)
            except Exception:  # the loop outlives whatever one pass meets
                if self._stopping.is_set():
                    return
                log.exception("target %s: a pass failed", self._target)
                pause = min(pause * 2, 30.0)

    @property
    def _lease_name(self) -> str:
        return f"target:{self._target}"

    def _hold_lease(self) -> bool:
        if time.monotonic() < self._lease_until - LEASE_S / 2:
            return True
        now = self._plane.now()
        with self._plane.write() as connection:
            held = leases.claim(connection, self._lease_name, self._plane.owner, now, LEASE_S)
        self._lease_until = time.monotonic() + LEASE_S if held else 0.0
        return held

    def _admit(self) -> None:
        """Give the head of the queue an attempt each, as far as there is room."""
        with self._plane.database.read() as connection:
            if not runs.queued(connection, self._target, 1):
                return
        health = self._capacity()
        total = sum((node.resources for node in health.nodes), Resources(0, 0, 0))
        gpus = [gpu for node in health.nodes for gpu in node.gpus]
        with self._plane.write() as connection:
            for run in runs.queued_to_cancel(connection, self._target):
                finish(self._plane, connection, run, Decision(Status.CANCELED, Reason.CANCELED))
            used = [_used(attempt) for attempt in attempts.active(connection, self._target)]
            head = runs.queued(connection, self._target, int(total.cpu) * 4 + 1)
            queue = [Waiting(run.id, Resources(run.cpu, run.memory_bytes, run.gpu)) for run in head]
            by_id = {run.id: run for run in head}
            for placement in place(queue, total, gpus, used):
                run = by_id[placement.run_id]
                now = self._plane.now()
                attempts.add(connection, run, new_uuid(), placement, now)
                runs.move(connection, run, Status.STARTING, now)

    def _launch(self) -> None:
        """Start the attempts that have no handle yet: new ones, and those a kill interrupted."""
        with self._plane.database.read() as connection:
            waiting = [
                (attempt, runs.get(connection, attempt.run_id))
                for attempt in attempts.active(connection, self._target)
                if attempt.handle is None
            ]
        for attempt, run in waiting:
            try:
                handle = self._driver.submit(launch.build(self._plane, run, attempt))
            except LaunchRefusedError as error:
                self._refused(attempt, error)
            except TargetUnavailableError as error:
                self._note(attempt, {"detail": error.message})
                raise
            else:
                self._note(attempt, {"handle": handle, "detail": ""})
            self._plane.changed(run.id)

    def _refused(self, attempt: Any, error: LaunchRefusedError) -> None:
        with self._plane.write() as connection:
            run = runs.get(connection, attempt.run_id)
            refusal = Decision(Status.FAILED, Reason.LAUNCH_REFUSED)
            finish(self._plane, connection, run, refusal, detail=error.message)
            now = self._plane.now()
            attempts.change(connection, attempt.id, {"ended_at": now, "released_at": now})

    def _cancel(self) -> None:
        """First ask, and after the grace insist."""
        with self._plane.database.read() as connection:
            wanted = [
                attempt
                for attempt in attempts.active(connection, self._target)
                if attempt.handle is not None
                and runs.get(connection, attempt.run_id).cancel_requested_at is not None
            ]
        now = self._plane.now()
        patience = timedelta(seconds=self._plane.settings.cancel_grace_s + FORCE_MARGIN_S)
        for attempt in wanted:
            if attempt.cancel_sent_at is None:
                self._driver.cancel(Handle(attempt.handle))
                self._note(attempt, {"cancel_sent_at": now})
            elif now - attempt.cancel_sent_at > patience:
                self._driver.cancel(Handle(attempt.handle), force=True)
                if attempt.force_sent_at is None:
                    self._note(attempt, {"force_sent_at": now})

    def _look(self) -> None:
        """Ask the backend about the attempts whose runner is not heard, and settle them all."""
        with self._plane.database.read() as connection:
            live = [a for a in attempts.active(connection, self._target) if a.handle is not None]
        due = [attempt for attempt in live if self._due(attempt)]
        if not due:
            return
        seen = self._driver.observe([Handle(attempt.handle) for attempt in due])
        for attempt in due:
            observation = seen.get(Handle(attempt.handle), Observation(Phase.UNKNOWN))
            if observation.phase in (Phase.EXITED, Phase.GONE) and attempt.exit is None:
                self._collect_log(attempt)
            with self._plane.write() as connection:
                self._keep(connection, attempt, observation)
                settle(self._plane, connection, attempts.get(connection, attempt.id))

    def _due(self, attempt: Any) -> bool:
        now = time.monotonic()
        heard = attempt.heartbeat_at or attempt.created_at
        quiet = (self._plane.now() - heard).total_seconds() > QUIET_S
        doubtful = attempt.stage is None or attempt.cancel_sent_at is not None or quiet
        first = attempt.id not in self._looked_at
        if first and attempt.created_at > self._plane.started_at:
            self._looked_at[attempt.id] = now
            return False
        if not first and (not doubtful or now - self._looked_at[attempt.id] < LOOK_EVERY_S):
            return False
        self._looked_at[attempt.id] = now
        return True

    def _keep(self, connection: Any, attempt: Any, observation: Observation) -> None:
        changes: dict[str, Any] = {"phase": observation.phase.value, "detail": observation.detail}
        if observation.phase is Phase.GONE:
            changes["gone_since"] = attempt.gone_since or self._plane.now()
        elif observation.phase is not Phase.UNKNOWN:
            changes["gone_since"] = None
        if observation.exit is not None and observation.phase is Phase.EXITED:
            changes["exit"] = dict(observation.exit.__dict__)
        attempts.change(connection, attempt.id, changes)

    def _collect_log(self, attempt: Any) -> None:
        """Fetch what the runner could not push any more."""
        key = log_key(attempt.run_id, attempt.id)
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
        self._release()
        self._forget_clients()

    def _release(self) -> None:
        before = self._plane.now() - timedelta(seconds=RELEASE_AFTER_S)
        with self._plane.database.read() as connection:
            ended = [
                attempt
                for attempt in attempts.to_release(connection, self._target, 200)
                if attempt.ended_at < before
            ]
        handles = [Handle(attempt.handle) for attempt in ended if attempt.handle is not None]
        seen = self._driver.observe(handles) if handles else {}
        for attempt in ended:
            self._looked_at.pop(attempt.id, None)
            if attempt.handle is not None:
                handle = Handle(attempt.handle)
                if seen[handle].phase in (Phase.RUNNING, Phase.PENDING):
                    self._driver.cancel(handle, force=True)
                    continue
                self._driver.release(handle)
            with self._plane.write() as connection:
                attempts.change(connection, attempt.id, {"released_at": self._plane.now()})
                if runs.find(connection, attempt.run_id) is None:
                    attempts.remove(connection, [attempt.run_id])

    def _forget_clients(self) -> None:
        now = self._plane.now()
        with self._plane.database.read() as connection:
            silent = runs.silent_since(connection, now - CLIENT_SILENCE)
        for run in silent:
            lost = run.heartbeat_at < now - CLIENT_LIMIT
            status = Status.FAILED if lost else Status.NOT_RESPONDING
            if run.status == status.value:
                continue
            with self._plane.write() as connection:
                row = runs.get(connection, run.id)
                decision = Decision(status, Reason.CLIENT_LOST if lost else None)
                finish(self._plane, connection, row, decision)

    def _capacity(self) -> Health:
        now = time.monotonic()
        if self._health is None or now - self._checked_at > CHECK_EVERY_S:
            self._health = self._driver.check()
            self._checked_at = now
        return self._health

    def _note(self, attempt: Any, changes: dict[str, Any]) -> None:
        with self._plane.write() as connection:
            attempts.change(connection, attempt.id, changes)


def _used(attempt: Any) -> Used:
    gpus = tuple(attempt.gpus)
    return Used(Resources(attempt.cpu, attempt.memory_bytes, len(gpus)), gpus)
