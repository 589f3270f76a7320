"""Attempts that were started: looked at where their runners are not heard, and settled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.lifecycle import Observation, Phase
from wherry.core.text import clean
from wherry.drivers.base import NODE_GONE, Driver, Handle, Rescuer
from wherry.store import attempts, runs

from . import launch, run_logs
from .exits import exit_record
from .hearing import GONE
from .plane import Plane
from .settle import settle
from .troubles import Troubles

LOOK_EVERY_S = 2.0
QUIET_S = 8.0
_PIECE = 1 << 20
_PIECES = 64


class Watching:
    def __init__(self, plane: Plane, driver: Driver, troubles: Troubles) -> None:
        self._plane = plane
        self._driver = driver
        self._troubles = troubles
        self._looked_at: dict[str, float] = {}

    def forget(self, attempt_id: str) -> None:
        self._looked_at.pop(attempt_id, None)
        self._plane.hearing.forget(attempt_id)

    def look(self, started: Sequence[Any]) -> None:
        """Ask the backend about the attempts whose runner is not heard, and settle them all."""
        due = [attempt for attempt in started if self._due(attempt)]
        if not due:
            return
        seen = self._driver.observe([Handle(attempt.handle) for attempt in due])
        for attempt in due:
            found = seen.get(Handle(attempt.handle), Observation(Phase.UNKNOWN))
            if found.phase is Phase.UNKNOWN and found.detail:
                self._troubles.complain(found.detail)
            with self._troubles.alone(attempt.run_id, attempt.id):
                self._settle(attempt, found)

    def _settle(self, attempt: Any, observation: Observation) -> None:
        if observation.phase in (Phase.EXITED, Phase.GONE):
            with self._plane.database.read() as connection:
                attempt = attempts.get(connection, attempt.id)  # it may have reported before
        if observation.phase in (Phase.EXITED, Phase.GONE) and attempt.exit is None:
            if self._rescue(attempt):
                return
            if not self._collect_log(attempt):
                return  # the rest at the next look: others wait to be looked at, too
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
            request = launch.build(self._plane, run, attempt.id, attempts.place_of(attempt))
        except LaunchRefusedError:  # the server's key was replaced: what is seen must do
            return False
        except TargetUnavailableError as error:
            if error.fields.get("cause") != NODE_GONE:
                raise
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

    def _collect_log(self, attempt: Any) -> bool:
        """Fetch what the runner could not push any more; whether that is all by now."""
        key = run_logs.key(attempt.run_id, attempt.id)
        handle = Handle(attempt.handle)
        for _ in range(_PIECES):
            size = self._plane.logs.size(key)
            data = self._driver.read_log(handle, size, _PIECE)
            if not data:
                return True
            self._plane.logs.append(key, size, data)
            self._plane.changed(attempt.run_id)
        return False
