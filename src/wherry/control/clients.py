"""Runs that a program drives by itself: those whose program is not heard of any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from wherry.core.lifecycle import Decision, Reason, Status
from wherry.store import runs

from .plane import Plane
from .settle import finish

SILENCE = timedelta(minutes=10)
LIMIT = timedelta(days=7)
_LATELY = timedelta(seconds=10)  # not worth writing down again


def forget_silent(plane: Plane) -> None:
    """First they do not respond, and after days they have failed."""
    now = plane.now()
    if now - plane.attentive_since < SILENCE:
        return
    with plane.database.read() as connection:
        silent = runs.silent_since(connection, now - SILENCE)
    for run in silent:
        lost = run.heartbeat_at < now - LIMIT
        status = Status.FAILED if lost else Status.NOT_RESPONDING
        if run.status == status.value:
            continue
        with plane.write() as connection:
            row = runs.get(connection, run.id, lock=True)
            if row.heartbeat_at != run.heartbeat_at or row.version != run.version:
                continue
            finish(plane, connection, row, Decision(status, Reason.CLIENT_LOST if lost else None))


def heard(plane: Plane, connection: Connection, run: Any) -> None:
    """Somebody who drives a run, or runs beside it, is there."""
    now = plane.now()
    if run.heartbeat_at is None or abs(now - run.heartbeat_at) >= _LATELY:
        runs.update_fields(connection, run, {"heartbeat_at": now})
    if run.target is None and run.status == Status.NOT_RESPONDING.value:
        finish(plane, connection, run, Decision(Status.RUNNING))
