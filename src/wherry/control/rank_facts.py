"""What a runner is told of the other nodes and processes of its run."""

from __future__ import annotations

from typing import Any

from wherry.core.distribution import roles
from wherry.core.lifecycle import Status
from wherry.core.placement import Placement
from wherry.core.specs import RunSpec
from wherry.store import attempts, nodes

from .plane import Plane

_THIS_MACHINE = "127.0.0.1"


def number_of(run: Any) -> int:
    """Which of the run's attempts it is; a row may be from before the attempt was counted."""
    return int(run.attempt_count) + int(run.status == Status.QUEUED.value)


def ranks(plane: Plane, run: Any, spec: RunSpec, place: Placement) -> dict[str, Any] | None:
    """The manifest's part for it; None for a run of one process."""
    if spec.node_count == 1 and spec.distribution is None:
        return None
    ids: list[str | None] = [None]
    names: dict[str, str] = {}
    addresses: dict[str, str] = {}
    if spec.node_count > 1:
        with plane.database.read() as connection:
            members = attempts.members(connection, run.id, number_of(run))
            ids = [each.node_id for each in members]
            known = [each for each in ids if each]
            names = nodes.names(connection, known)
            addresses = nodes.addresses(connection, known)
    return {
        "node": place.rank,
        "type": spec.distribution["type"] if spec.distribution else "",
        "hosts": [addresses.get(each or "", _THIS_MACHINE) for each in ids],
        "names": [names.get(each or "") or f"node-{rank}" for rank, each in enumerate(ids)],
        "roles": roles(spec.distribution, spec.node_count),
    }
