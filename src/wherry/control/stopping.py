"""Runs that are to end: those that wait do so at once, attempts are asked, then made to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wherry.core.gang import PREEMPTED
from wherry.core.lifecycle import Decision, Reason, Status
from wherry.drivers.base import Driver, Handle
from wherry.store import attempts, queues

from .hearing import CANCELED
from .launch import PREEMPTION_GRACE_S
from .plane import Plane
from .settle import finish
from .troubles import Troubles

FORCE_MARGIN_S = 5.0


class Stopping:
    def __init__(self, plane: Plane, target: str, driver: Driver, troubles: Troubles) -> None:
        self._plane = plane
        self._target = target
        self._driver = driver
        self._troubles = troubles

    def cancel_queued(self) -> None:
        """Those that were asked to end and had to queue again."""
        with self._plane.database.read() as connection:
            if not queues.to_cancel(connection, self._target):
                return
        with self._plane.write() as connection:
            for run in queues.to_cancel(connection, self._target):
                finish(self._plane, connection, run, Decision(Status.CANCELED, Reason.CANCELED))

    def cancel(self, started: Sequence[Any]) -> None:
        """First ask, and after the grace insist."""
        wanted = [each for each in started if each.cancel_requested_at or each.stop_wanted_at]
        now = self._plane.now()
        for attempt in wanted:
            patience_s = self._patience_s(attempt)
            asked_s = self._plane.hearing.lasting_s(attempt.id, CANCELED)
            with self._troubles.alone(attempt.run_id, attempt.id):
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
            given_s = max(given_s, PREEMPTION_GRACE_S)
        return given_s + FORCE_MARGIN_S

    def _note(self, attempt_id: str, facts: Mapping[str, Any]) -> None:
        with self._plane.write() as connection:
            attempts.change(connection, attempt_id, facts)
