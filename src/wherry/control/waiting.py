"""What a run that has not ended is waiting for, in one sentence."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from sqlalchemy import Connection

from wherry.core.lifecycle import Status
from wherry.core.resources import Resources
from wherry.store import attempts, runs


class Queues:
    """The queues of targets, each read once for a whole page of runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[list[int], Resources]] = {}

    def place(self, target: str, seq: int) -> tuple[int, Resources]:
        """How many runs are before it, counted up to a bound, and what the target has in use."""
        if target not in self._known:
            active = attempts.active(self._connection, target)
            held = sum((_held(attempt) for attempt in active), Resources(0, 0, 0))
            self._known[target] = (runs.queue(self._connection, target), held)
        queue, held = self._known[target]
        return bisect_left(queue, seq), held


def explain(connection: Connection, row: Any, queues: Queues | None = None) -> str:
    """Whose turn it is: capacity, set-up, the user's code, the platform."""
    status = Status(row.status)
    if status.terminal:
        return str(row.message)
    if row.cancel_requested_at is not None:
        return "cancel requested; waiting for its processes to end"
    if status is Status.QUEUED:
        return _queued(queues or Queues(connection), row)
    if row.target is None:
        return _interactive(status)
    return _active(connection, row, status)


def _queued(queues: Queues, row: Any) -> str:
    wanted = Resources(row.cpu, row.memory_bytes, row.gpu)
    ahead, held = queues.place(row.target, row.seq)
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
