"""An attempt that was surely never started goes back: its run queues again, at nobody's expense."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import TargetUnavailableError, WherryError
from wherry.core.gang import UNUSABLE
from wherry.core.text import clean
from wherry.store import attempts, computes, nodes

from . import sightings
from .exits import exit_record
from .node_refusals import count
from .plane import Plane
from .settle import settle
from .target_lease import TargetLease


class Unsent:
    """The attempts of which this process knows that no request has ever left for their node.

    It admitted them itself, and no other server can have sent anything since.
    """

    def __init__(self, plane: Plane, lease: TargetLease) -> None:
        self._plane = plane
        self._lease = lease
        self._admitted: dict[str, int | None] = {}

    def add(self, attempt_id: str) -> None:
        self._admitted[attempt_id] = self._lease.term

    def discard(self, attempt_id: str) -> None:
        """Something may have arrived: for good, whatever is seen later."""
        self._admitted.pop(attempt_id, None)

    def put_back(self, attempt_id: str, error: TargetUnavailableError) -> bool:
        """Whether its run queues again, since it was surely not delivered."""
        if not error.fields.get("unsent") and not error.fields.get("refused"):
            self.discard(attempt_id)
        term = self._admitted.get(attempt_id)
        if term is None or term != self._lease.term:
            return False
        went = put_back(self._plane, attempt_id, error)
        if went:
            self.discard(attempt_id)
        return went


def put_back(plane: Plane, attempt_id: str, error: WherryError) -> bool:
    """Whether it went back. Its node is unusable when it has not answered, or refused too often.

    One of several nodes ends the others, whose commands wait for it; then all queue again.
    """
    with plane.write() as connection:
        found = attempts.find(connection, attempt_id)
        if found is None:
            return False
        computes.find(connection, found.target, lock=True)
        attempt = attempts.get(connection, attempt_id)
        refused = "unsent" not in error.fields
        if attempt.handle is not None or attempt.ended_at is not None:
            return False
        if refused and attempt.node_id is None:
            return False  # there is no other: it is tried again here
        node = nodes.find(connection, attempt.node_id) if attempt.node_id else None
        reason = clean(error.message)
        _give_up(plane, connection, attempt, reason)
        if node is not None:
            sightings.of_node(plane.sightings, node, plane.now(), error)
            _tell_node(plane, connection, node, error, refused=refused)
    plane.hint(attempt.target)
    return True


def _tell_node(
    plane: Plane, connection: Connection, node: Any, error: WherryError, *, refused: bool
) -> None:
    cause, reason = error.fields.get("cause"), clean(error.message)
    if cause == "stopped" and node.state == nodes.IDLE:  # to be started again, which makes sure
        nodes.move(connection, node.id, nodes.PREPARING, plane.now(), idle_since=None, tries=0)
        return
    at_once = not refused or cause == "disk_full"
    count(connection, node.id, reason, plane.now(), node.tries, at_once=at_once)


def _give_up(plane: Plane, connection: Connection, attempt: Any, reason: str) -> None:
    now = plane.now()
    never = {
        "exit": dict(exit_record({"lost": True, "unstarted": True}).__dict__),
        "detail": reason,
        "released_at": now,
        "stop_wanted_at": now,
        "stop_reason": UNUSABLE,
    }
    attempts.change(connection, attempt.id, never)
    settle(plane, connection, attempts.get(connection, attempt.id), {})
