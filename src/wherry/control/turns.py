"""Clusters of a site that is full take turns: whose run has waited for longer gets the next node.

Nothing is taken away from a run. A cluster that has more nodes than its minimum gives those back
that fall idle, where a run of another cluster there came before all that wait for this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import may_be_taken, site_name
from wherry.core.scheduling import Job
from wherry.core.targets import name_of
from wherry.core.vm_sizes import Size
from wherry.store import nodes

from .claims import Claim
from .cluster_views import ClusterView
from .plane import Plane

TURN = timedelta(seconds=30)
"""A cluster with work for its nodes keeps them for so long while others ask for them."""
_KEPT = timedelta(seconds=120)
"""So long a node that was given back is kept for whom it was given."""


class Turns:
    """Of one cluster: what it claims, and what it gives to those that claim."""

    def __init__(self, plane: Plane, target: str) -> None:
        self._plane = plane
        self._target = target

    def claim(
        self,
        view: ClusterView,
        row: Row[Any],
        room: int,
        size: Size,
        helps: Callable[[Row[Any]], bool],
    ) -> None:
        """Ask for what a run lacks. Not while nodes fail: more of them would be of no use."""
        lack = None if view.has_trouble() else _lack(view, room)
        if lack is None:
            self.drop()
            return
        wanted, job = lack
        known, now = self._plane.claims.get(self._target), self._plane.now()
        since = known.since if known is not None else now
        site = site_name(row.config["location"])
        claim = Claim(site, size, wanted, _order(job), since, helps)
        if known is not None and known.given_at is not None and now - known.given_at < _KEPT:
            claim.given_at = known.given_at
        self._plane.claims[self._target] = claim

    def drop(self) -> None:
        self._plane.claims.pop(self._target, None)

    def asked(self, row: Row[Any]) -> list[tuple[str, Claim]]:
        """What other clusters of the site lack and nobody has given yet, the first first."""
        if may_be_taken(row.config):  # its nodes are taken as they are needed
            return []
        site = site_name(row.config["location"])
        others = [
            (target, claim)
            for target, claim in list(self._plane.claims.items())
            if target != self._target and claim.site == site and claim.given_at is None
        ]
        return sorted(others, key=lambda each: each[1].order)

    def give(
        self, connection: Connection, row: Row[Any], view: ClusterView, waiting: Sequence[Job]
    ) -> bool:
        """Let nodes go for the first claim that comes before all that wait here."""
        for target, claim in self.asked(row):
            if waiting and not self._comes_first(claim, waiting[0]):
                continue
            idle = [node for node in view.idle() if claim.helps(view.present[node])]
            if claim.wanted <= min(len(idle), view.above_minimum()):
                claim.given_at = self._plane.now()
                reason = f"wanted by compute target {name_of(target)}"
                for node_id in idle[: claim.wanted]:
                    now = self._plane.now()
                    nodes.move(connection, node_id, nodes.LEAVING, now, reason=reason)
                return True
        return False

    def _comes_first(self, claim: Claim, mine: Job) -> bool:
        return claim.order < _order(mine) and self._plane.now() - claim.since >= TURN


def given_to_others(plane: Plane, row: Row[Any]) -> list[Size]:
    """The nodes of the row's site that were given back for other clusters than that."""
    site = site_name(row.config["location"])
    return [
        claim.size
        for target, claim in list(plane.claims.items())
        if target != row.target and claim.site == site and claim.given_at is not None
        for _ in range(claim.wanted)
    ]


def _lack(view: ClusterView, room: int) -> tuple[int, Job] | None:
    """How many nodes more would start a run, and which: one more, or as many as the first lacks."""
    there = view.ready() + room
    every = view.queue(None)
    for wanted in sorted({1, *(job.node_count - there for job in every[:1])}):
        if wanted > 0 and view.decide(room + wanted).make:
            for job in view.queue(room + wanted):
                if job.node_count <= there + wanted:
                    return wanted, job
    return None


def _order(job: Job) -> tuple[int, float]:
    return -job.priority, job.submitted
