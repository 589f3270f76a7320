"""Attempts on their way to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.lifecycle import Decision, Reason, Status
from wherry.core.placement import Placement
from wherry.core.text import clean
from wherry.drivers.base import Driver, Knowing, Launch, unsent
from wherry.store import attempts, runs

from . import attempt_tokens, costs, launch
from .admission import Admitted
from .clearing import Clearing
from .exits import exit_record
from .plane import Plane
from .returning import Unsent, put_back
from .settle import finish, settle
from .standby import Standby, queue_again
from .troubles import Troubles


class Starting:
    """What was started is ``unnoted`` until the next transaction, which others wait for anyway.

    Where a kill comes first, the driver adopts it.
    """

    def __init__(
        self,
        plane: Plane,
        driver: Driver,
        standby: Standby,
        clearing: Clearing,
        troubles: Troubles,
        unsent: Unsent,
    ) -> None:
        self._plane = plane
        self._driver = driver
        self._standby = standby
        self._clearing = clearing
        self._troubles = troubles
        self._unsent = unsent
        self.unnoted: dict[str, dict[str, Any]] = {}
        self._inherits = True

    def begin(self, admitted: Admitted) -> None:
        with self._troubles.alone(admitted.run.id, admitted.attempt_id):
            attempt_tokens.started(self._plane, admitted.attempt_id)
            self._unsent.add(admitted.attempt_id)
            self._start(*admitted)

    def adopt(self, waiting: Sequence[Any]) -> None:
        """Start the attempts that nobody knows to be started: a kill came between, or an outage.

        What had been started before a kill is not started again, even if it has ended since; what
        surely was not queues again.
        """
        inherits, self._inherits = self._inherits, False
        for attempt in waiting:
            if attempt.id in self.unnoted or self._standby.waits(attempt.id):
                continue
            with self._troubles.alone(attempt.run_id, attempt.id):
                if inherits and self._never_came(attempt.id):
                    queue_again(self._plane, attempt.run_id, attempt.id, attempt.number - 1)
                    self._plane.hint(attempt.target)
                    continue
                with self._plane.database.read() as connection:
                    if attempts.get(connection, attempt.id).released_at is not None:
                        continue  # its machine was given up just now
                    run = runs.get(connection, attempt.run_id)
                self._start(run, attempt.id, attempts.place_of(attempt))

    def _never_came(self, attempt_id: str) -> bool:
        """One of an earlier server may have stood by: there need not be room for it."""
        return self._plane.database.is_sqlite and (
            isinstance(self._driver, Knowing) and self._driver.is_unknown(attempt_id)
        )

    def _start(self, run: Any, attempt_id: str, place: Placement) -> None:
        try:
            handle = self._driver.submit(self._request(run, attempt_id, place))
        except LaunchRefusedError as error:
            self._unsent.discard(attempt_id)
            if not (error.fields.get("node") and put_back(self._plane, attempt_id, error)):
                self._refused(run.id, attempt_id, error)
        except TargetUnavailableError as error:
            if not self._unsent.put_back(attempt_id, error):
                with self._plane.write() as connection:
                    attempts.change(connection, attempt_id, {"detail": clean(error.message)})
            raise
        else:
            self._unsent.discard(attempt_id)
            self.unnoted[attempt_id] = {"handle": handle, "detail": ""}
            self._standby.started(attempt_id, place)
            self._clearing.started()

    def _request(self, run: Any, attempt_id: str, place: Placement) -> Launch:
        try:
            return launch.build(self._plane, run, attempt_id, place)
        except TargetUnavailableError as error:
            raise unsent(error) from None

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
