"""Nodes on which nothing can be started: after a few times they are given no more runs."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from wherry.core.autoscale import TRIES
from wherry.store import nodes


def count(
    connection: Connection, node_id: str, reason: str, now: datetime, tries: int, *, at_once: bool
) -> None:
    """One more than ``tries``; ``at_once`` where there is no doubt that it cannot be used."""
    node = nodes.find(connection, node_id)
    if node is None or node.state != nodes.IDLE:
        return
    refused = max(tries + 1, TRIES) if at_once else tries + 1
    if refused < TRIES:
        nodes.change(connection, node_id, {"tries": refused})
        return
    told = {"reason": reason, "idle_since": None, "tries": refused}
    nodes.move(connection, node_id, nodes.UNUSABLE, now, **told)
