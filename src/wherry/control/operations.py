"""What is done with compute instances: noted here, carried out by what looks after them."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.records import iso
from wherry.core.schedules import STOP
from wherry.store import computes, instances

from .plane import Plane

log = logging.getLogger(__name__)

BY_USER, BY_SCHEDULE, BY_IDLENESS = "User", "Schedule", "IdleShutdown"


def operation(name: str, trigger: str, now: datetime) -> dict[str, Any]:
    """The last thing that was done with an instance, as Azure ML tells it."""
    told = {"operation_name": name, "operation_trigger": trigger}
    return {**told, "operation_time": iso(now), "operation_status": "Succeeded"}


def operate(
    plane: Plane, connection: Connection, row: Row[Any], action: str, trigger: str = BY_USER
) -> None:
    """Note that it is to be started, stopped or restarted; the rest follows."""
    now = plane.now()
    stopped_at = (row.stopped_at or now) if action == STOP else None
    computes.change(connection, row.target, {"stopped_at": stopped_at, "modified_at": now})
    told = operation(action.capitalize(), trigger, now)
    changes: dict[str, Any] = {"operation": told, "failures": 0, "active_at": now}
    instances.change(connection, row.target, {**changes, "restarting": action == "restart"})
    log.info("compute instance %s: %s by %s", row.target, action, trigger)
