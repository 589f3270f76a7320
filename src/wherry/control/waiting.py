"""What a run that has not ended is waiting for, in one sentence."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from wherry.core.lifecycle import Status
from wherry.core.resources import Resources
from wherry.store import attempts, runs


def explain(connection: Connection, row: Any) -> str:
    """Whose turn it is: capacity, set-up, the user's code, the platform."""
    status = Status(row.status)
    if status.terminal:
        return str(row.message)
    if row.cancel_requested_at is not None:
        return "cancel requested; waiting for its processes to end"
    if status is Status.QUEUED:
        return _queued(connection, row)
    if row.target is None:
        return _interactive(status)
    return _active(connection, row, status)


def _queued(connection: Connection, row: Any) -> str:
    wanted = Resources(row.cpu, row.memory_bytes, row.gpu)
    ahead = runs.ahead(connection, row)
    active = attempts.active(connection, row.target)
    held = sum((_held(attempt) for attempt in active), Resources(0, 0, 0))
    order = f"{ahead} run{'' if ahead == 1 else 's'} before it" if ahead else "next in line"
    return f"waiting for {wanted} on target {row.target!r} ({held} in use); {order}"


def _held(attempt: Any) -> Resources:
    return Resources(attempt.cpu, attempt.memory_bytes, len(attempt.gpus))


def _interactive(status: Status) -> str:
    if status is Status.NOT_RESPONDING:
        return "waiting to hear from the program that logs it"
    return "running in the program that started it"


def _active(connection: Connection, row: Any, status: Status) -> str:
    tries = attempts.of_run(connection, row.id)
    trouble = tries[-1].detail if tries else ""
    told = f" ({trouble})" if trouble else ""
    return {
        Status.PROVISIONING: f"waiting for a node of target {row.target!r}{told}",
        Status.STARTING: f"waiting for target {row.target!r} to start it{told}",
        Status.PREPARING: "its files and environment are being prepared",
        Status.RUNNING: "the script is running",
        Status.FINALIZING: "the script has ended; its logs and outputs are being stored",
        Status.NOT_RESPONDING: f"its node has not been heard of for a while; still looking{told}",
    }.get(status, "")
