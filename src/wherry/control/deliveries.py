"""Short runs as their runners hand them over to the driver: the end and the log in one piece."""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from wherry.core.targets import LOCAL
from wherry.drivers.base import Driver, Reporting
from wherry.store import attempts

from . import run_logs
from .exits import exit_record
from .plane import Plane
from .settle import settle

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """One ended attempt, its log stored already."""

    run_id: str
    attempt_id: str
    exit: dict[str, Any]


def receive(plane: Plane, target: str, driver: Driver) -> Sequence[Delivery]:
    """What the driver was handed. One that cannot be taken is found later by looking."""
    reports = driver.reports() if isinstance(driver, Reporting) else []
    if reports and target != LOCAL:
        reports = _own(plane, target, reports)
    return [each for report in reports if (each := _received(plane, report)) is not None]


def deliver(
    plane: Plane, connection: Connection, delivery: Delivery, noted: Mapping[str, Any]
) -> None:
    """Settle the attempt; ``noted`` is new about it, too. If its run is gone, nothing stays."""
    attempt = attempts.find(connection, delivery.attempt_id)
    if attempt is None or attempt.run_id != delivery.run_id:
        run_logs.remove(plane, delivery.run_id, delivery.attempt_id)
        return
    changes: dict[str, Any] = {**noted, "heartbeat_at": plane.now()}
    if attempt.exit is None:
        changes["exit"] = delivery.exit
    settle(plane, connection, attempt, changes)


def _own(
    plane: Plane, target: str, reports: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Another machine has a say about the attempts that are on it, and about no others."""
    with plane.database.read() as connection:
        known = {each.id: each.run_id for each in attempts.active(connection, target)}
    return [each for each in reports if _is_one(each, known)]


def _is_one(report: Any, known: Mapping[str, str]) -> bool:
    if not isinstance(report, Mapping):
        return False
    run_id, attempt_id = report.get("run_id"), report.get("attempt_id")
    return isinstance(attempt_id, str) and attempt_id in known and known[attempt_id] == run_id


def _received(plane: Plane, report: Mapping[str, Any]) -> Delivery | None:
    try:
        run_id, attempt_id = str(report["run_id"]), str(report["attempt_id"])
        exit = dict(exit_record(report["exit"]).__dict__)
        data = b64decode(report["log"])
        if data:
            plane.logs.append(run_logs.key(run_id, attempt_id), 0, data)
            plane.changed(run_id)
    except Exception:  # anybody may write to a pipe, and disks may be full
        log.exception("a report that was handed over cannot be taken")
        return None
    return Delivery(run_id, attempt_id, exit)
