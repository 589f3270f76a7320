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
    found = _nodes(plane, run) if spec.node_count > 1 else [None]
    return {
        "node": place.rank,
        "type": spec.distribution["type"] if spec.distribution else "",
        "hosts": [str((node and node.config.get("address")) or _THIS_MACHINE) for node in found],
        "names": [str((node and node.name) or f"node-{rank}") for rank, node in enumerate(found)],
        "roles": roles(spec.distribution, spec.node_count),
    }


def _nodes(plane: Plane, run: Any) -> list[Any]:
    """Of each rank; None of one that is not known."""
    with plane.database.read() as connection:
        ids = [each.node_id for each in attempts.members(connection, run.id, number_of(run))]
        known = nodes.some(connection, [each for each in ids if each])
    return [known.get(each or "") for each in ids]
