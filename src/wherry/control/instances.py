"""Compute instances: one node that is there while it is wanted, with JupyterLab on it."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from wherry.core.errors import WherryError
from wherry.core.idleness import in_use, last_used
from wherry.core.instance_state import JOB_RUNNING, USABLE
from wherry.core.lifecycle import Reason, Status
from wherry.core.schedules import STOP, last_due
from wherry.core.session_tries import again_at, failures_with, lived
from wherry.core.sessions import BUSY, SOCKET, TERMINALS
from wherry.core.targets import workspace_of
from wherry.drivers.sites import Site
from wherry.store import computes, instances, nodes

from . import instance_records, jupyter, session_facts, sessions
from .clusters import Cluster
from .doors import door
from .instance_admission import InstanceAdmission
from .operations import BY_IDLENESS, BY_SCHEDULE, operate
from .plane import Plane
from .workers import Workers

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 15.0
_NOTED_S = 5.0


class Instance(Cluster):
    """A cluster of one node whose runs share it. Its tick sees to schedules, session and idleness,
    all from rows.
    """

    def __init__(
        self, plane: Plane, target: str, site: Site | None = None, workers: Workers | None = None
    ) -> None:
        self._looks = workers or Workers()
        super().__init__(plane, target, site, workers)
        self.admission = InstanceAdmission(plane, target)
        self._looked_at = float("-inf")

    def tick(self) -> None:
        self._keep_schedules()
        self._keep_session()
        super().tick()
        self._watch()

    def _keep_schedules(self) -> None:
        row, instance = self._rows()
        if row is None or instance is None or row.deleting_at is not None:
            return
        now = self._plane.now()
        since, schedules = instance.scheduled_at, row.config["schedules"]
        due = [(last_due(each, since, now), each["action"]) for each in schedules]
        passed = [(at, action) for at, action in due if at is not None]
        if not passed:
            return
        _, action = max(passed)
        with self._plane.write() as connection:
            row = computes.find(connection, self._target, lock=True)
            if row is None or row.deleting_at is not None:
                return
            instances.change(connection, self._target, {"scheduled_at": now})
            if (row.stopped_at is None) == (action == STOP):
                operate(self._plane, connection, row, action, BY_SCHEDULE)

    def _keep_session(self) -> None:
        """One while the instance is wanted, none otherwise."""
        row, instance = self._rows()
        if row is None or instance is None:
            return
        with self._plane.database.read() as connection:
            session = session_facts.live(connection, instance)
            present = nodes.present(connection, self._target)
        wanted = row.stopped_at is None and row.deleting_at is None
        if session is not None:
            if not wanted or instance.restarting:
                self._end(session)
            else:
                self._note_usable(instance, session)
        elif wanted and instance.restarting:
            self._let_node_go(present)
        elif wanted:
            self._begin(row, instance, present)

    def _end(self, session: Any) -> None:
        if session.cancel_requested_at is None:
            sessions.end(self._plane, session.id)

    def _let_node_go(self, present: list[Row[Any]]) -> None:
        """The next one is new; runs that are on it come to their end first."""
        with self._plane.write() as connection:
            busy = nodes.busy(connection, self._target)
            if any(node.id in busy for node in present):
                return
            for node in present:
                if node.state in (nodes.IDLE, nodes.UNUSABLE):
                    nodes.move(connection, node.id, nodes.LEAVING, self._plane.now())
            instances.change(connection, self._target, {"restarting": False})

    def _begin(self, row: Row[Any], instance: Row[Any], present: list[Row[Any]]) -> None:
        there = [node for node in present if node.state == nodes.IDLE]
        if not there:
            return
        due = self._due(instance)
        if due is None or due > self._plane.now():
            return
        sessions.begin(self._plane, row, there[0])
        sessions.forget_old(self._plane, self._target)

    def _due(self, instance: Row[Any]) -> datetime | None:
        """When a session may begin; None where too many have failed. The last is counted once."""
        with self._plane.database.read() as connection:
            run, said = session_facts.last(connection, instance)
        lost = run is not None and run.reason == Reason.RUNNER_LOST.value
        if run is None or run.status != Status.FAILED.value or (lost and said.get(SOCKET)):
            return self._plane.now()  # what its machine did is no fault of JupyterLab
        failures = int(instance.failures)
        if instance.operation.get("failed") != run.id:
            failures = failures_with(failures, run.started_at, run.ended_at)
            noted = {**instance.operation, "failed": run.id, "operation_status": "Failed"}
            with self._plane.write() as connection:
                changes = {"failures": failures, "operation": noted}
                instances.change(connection, self._target, changes)
        return again_at(failures, run.ended_at or self._plane.now())

    def _note_usable(self, instance: Row[Any], session: Any) -> None:
        if instance.created and not instance.failures:
            return
        with self._plane.database.read() as connection:
            _, said = session_facts.last(connection, instance)
        now, known = self._plane.now(), dict[str, Any]()
        if said.get(SOCKET) and not instance.created:
            known.update(created=True, active_at=now)
        if instance.failures and lived(session.started_at, now):
            known.update(failures=0)
        if known:
            with self._plane.write() as connection:
                instances.change(connection, self._target, known)

    def _watch(self) -> None:
        """Now and then: whether somebody uses it."""
        row, instance = self._rows()
        if row is None or instance is None or row.config["idle_seconds"] is None:
            return
        now = time.monotonic()
        if now - self._looked_at < min(_LOOK_EVERY_S, row.config["idle_seconds"] / 4):
            return
        self._looked_at = now
        self._looks.do(f"use of {self._target}", self._look)

    def _look(self) -> None:
        row, instance = self._rows()
        if row is None or instance is None or row.stopped_at is not None:
            return
        with self._plane.database.read() as connection:
            state = instance_records.seen(connection, row)
            _, said = session_facts.last(connection, instance)
        if state not in USABLE:
            return
        at_work = state == JOB_RUNNING or said.get(TERMINALS) == BUSY
        try:
            used_at = self._plane.now() if at_work else self._used_at(row)
        except (WherryError, jupyter.SilentError) as error:  # doubt stops nothing
            log.warning("compute instance %s cannot be asked for its use: %s", row.target, error)
            return
        self._conclude(row, max(used_at, instance.active_at))

    def _used_at(self, row: Row[Any]) -> datetime:
        """When it was last used; now, if it is."""
        way = door(self._plane, workspace_of(row.target), row.name)
        status, kernels, terminals = (
            jupyter.ask(way.socket, way.base_url, way.token, what)
            for what in ("status", "kernels", "terminals")
        )
        now = self._plane.now()
        traffic = self._plane.traffic.get(row.target)
        if in_use(kernels) or (traffic is not None and traffic.websockets):
            return now
        told = [last_used(status, kernels, terminals), self._plane.attentive_since]
        if traffic is not None:
            told += [traffic.last_closed_at, traffic.last_request_at]
        return min(now, max(moment for moment in told if moment is not None))

    def _conclude(self, row: Row[Any], used_at: datetime) -> None:
        now, idle_s = self._plane.now(), row.config["idle_seconds"]
        with self._plane.write() as connection:
            row_now = computes.find(connection, self._target, lock=True)
            known = instances.find(connection, self._target)
            if row_now is None or known is None or row_now.stopped_at is not None:
                return
            if abs((used_at - known.active_at).total_seconds()) > min(_NOTED_S, idle_s / 4):
                instances.change(connection, self._target, {"active_at": used_at})
            unused_s = (now - max(used_at, known.active_at)).total_seconds()
            if unused_s >= idle_s and not known.restarting:
                operate(self._plane, connection, row_now, STOP, BY_IDLENESS)
        self._plane.hint(self._target)

    def _rows(self) -> tuple[Row[Any] | None, Row[Any] | None]:
        with self._plane.database.read() as connection:
            row = computes.find(connection, self._target)
            return row, instances.find(connection, self._target)
