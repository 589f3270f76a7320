"""What a run that has not ended is waiting for, in one sentence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from wherry.core.compute_configs import INSTANCE
from wherry.core.instance_state import STOPPED
from wherry.core.lifecycle import Status
from wherry.core.resources import Resources
from wherry.core.targets import BUILT_IN, LOCAL, name_of, sharing
from wherry.store import attempts, computes, nodes, queues

from . import instance_records
from .cluster_queue import ClusterQueue, cluster_queue
from .compute_records import failures
from .plane import Plane

_COUNTED = 1000


def explain(plane: Plane, connection: Connection, rows: Sequence[Any]) -> list[str]:
    """Of each run, whose turn it is: capacity, set-up, the user's code, the platform."""
    queues = _Queues(plane, connection, rows)
    return [_explain(connection, row, queues) for row in rows]


class _Queues:
    """The queues of targets as far as some runs stand in them, each read once for all of them."""

    def __init__(self, plane: Plane, connection: Connection, rows: Sequence[Any]) -> None:
        self._plane = plane
        self._connection = connection
        self._computes: dict[str, ClusterQueue | None] = {}
        self._places: dict[str, list[int]] = {}
        for row in rows:
            if row.status == Status.QUEUED.value:
                self._places.setdefault(row.target, []).append(row.seq)
        self._known: dict[str, tuple[int, list[int], Resources]] = {}

    def place(self, target: str, seq: int) -> tuple[int, Resources]:
        """How many runs are before it, counted up to a bound, and what the target has in use."""
        if target not in self._known:
            self._known[target] = self._look(target)
        ahead, between, held = self._known[target]
        return min(ahead + bisect_left(between, seq), _COUNTED), held

    def of_cluster(self, target: str) -> ClusterQueue | None:
        if target not in self._computes:
            self._computes[target] = cluster_queue(self._plane, self._connection, target)
        return self._computes[target]

    def of_instance(self, target: str) -> str:
        """What keeps a compute instance from taking runs; empty for others, and if nothing does."""
        row = computes.find(self._connection, target)
        if row is None or row.kind != INSTANCE:
            return ""
        state = instance_records.seen(self._connection, row)
        if any(node.state == nodes.IDLE for node in nodes.present(self._connection, target)):
            return ""
        remedy = f": wherry compute start {row.name}" if state == STOPPED else ""
        return f"compute instance {row.name!r} is {state}{remedy}"

    def problem(self, target: str) -> str:
        told = self._plane.problems.get(target)
        if told is None and target not in BUILT_IN:
            row = computes.find(self._connection, target)
            told = "; ".join(failures(row)) if row is not None else None
        return told or ""

    def _look(self, target: str) -> tuple[int, list[int], Resources]:
        first, last = min(self._places[target]), max(self._places[target])
        same = sharing(target)
        active = [row for each in same for row in attempts.active(self._connection, each)]
        return (
            sum(queues.count_before(self._connection, each, first, _COUNTED) for each in same),
            sorted(
                place
                for each in same
                for place in queues.between(self._connection, each, first, last, _COUNTED)
            ),
            sum((_held(attempt) for attempt in active), Resources(0, 0, 0)),
        )


def _explain(connection: Connection, row: Any, queues: _Queues) -> str:
    status = Status(row.status)
    if status.terminal:
        return str(row.message)
    if row.cancel_requested_at is not None and status is Status.NOT_RESPONDING and row.target:
        return f"cancel requested; {_active(connection, row, status)}"
    if row.cancel_requested_at is not None:
        return "cancel requested; waiting for its processes to end"
    if status is Status.QUEUED:
        return _queued(queues, row)
    if row.target is None:
        return _interactive(status)
    return _active(connection, row, status)


def _queued(queues: _Queues, row: Any) -> str:
    cluster = queues.of_cluster(row.target) if row.target not in BUILT_IN else None
    if cluster is not None:
        return cluster.explain(row)
    instance = queues.of_instance(row.target) if row.target != LOCAL else ""
    if instance:
        return instance
    wanted = Resources(row.cpu, row.memory_bytes, row.gpu)
    ahead, held = queues.place(row.target, row.seq)
    order = f"{ahead} run{'' if ahead == 1 else 's'} before it" if ahead else "next in line"
    where = f"target {name_of(row.target)!r} ({held} in use)"
    problem = queues.problem(row.target)
    if problem:
        return (
            f"waiting for target {name_of(row.target)!r}, which cannot be used: {problem}; {order}"
        )
    return f"waiting for {wanted} on {where}; {order}"


def _held(attempt: Any) -> Resources:
    return Resources(attempt.cpu, attempt.memory_bytes, len(attempt.gpus))


def _interactive(status: Status) -> str:
    if status is Status.NOT_RESPONDING:
        return "waiting to hear from the program that logs it"
    return "running in the program that started it"


def _active(connection: Connection, row: Any, status: Status) -> str:
    tries = attempts.of_run(connection, row.id)
    last = [each for each in tries if each.number == tries[-1].number]
    trouble = next((each.detail for each in last if each.detail), "")
    told = f" ({trouble})" if trouble else ""
    return {
        Status.PROVISIONING: f"waiting for a node of target {name_of(row.target)!r}{told}",
        Status.STARTING: f"waiting for target {name_of(row.target)!r} to start it{told}",
        Status.PREPARING: trouble or "its files and environment are being prepared",
        Status.RUNNING: "the script is running",
        Status.FINALIZING: "the script has ended; its logs and outputs are being stored",
        Status.NOT_RESPONDING: f"its node has not been heard of for a while; still looking{told}"
        f"{_remedy(connection, row.target, last) if trouble else ''}",
    }.get(status, "")


def _remedy(connection: Connection, target: str, members: Sequence[Any]) -> str:
    """What ends the waiting for another machine that will not come back."""
    if target in BUILT_IN:
        return ""
    silent = next(each for each in members if each.detail)
    node = nodes.find(connection, silent.node_id) if silent.node_id else None
    if node is not None and node.site == LOCAL:
        return ""
    name = name_of(target)
    command = f"give-up {name} {node.name}" if node is not None else f"detach {name} --force"
    return f"; if the machine is gone for good: wherry compute {command}"
