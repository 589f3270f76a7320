"""All nodes of a run's attempt together: what they call for, and which of them are to end."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection

from wherry.core import gang
from wherry.core.distribution import roles, serves
from wherry.core.gang import Gang, Member
from wherry.core.lifecycle import ExitRecord, Facts, Phase, Stage
from wherry.store import attempts, nodes

from .hearing import GONE
from .plane import Plane


class Members:
    """Those of one attempt, with what is new about one of them."""

    def __init__(
        self,
        plane: Plane,
        connection: Connection,
        run: Any,
        attempt: Any,
        changes: Mapping[str, Any],
    ) -> None:
        self._plane = plane
        self._connection = connection
        rows = attempts.members(connection, run.id, attempt.number)
        self._known = [
            SimpleNamespace(**{**row._mapping, **(changes if row.id == attempt.id else {})})
            for row in rows
        ]
        self._nodes = nodes.some(connection, [row.node_id for row in rows if row.node_id])
        alone = len(rows) == 1
        never_end = [] if alone else _never_end(run)
        self.seen = [
            Member(
                rank=each.rank,
                node=self._name(each),
                facts=facts(plane, each, run.preemptions),
                stop=each.stop_reason,
                serves=each.rank in never_end,
            )
            for each in self._known
        ]
        self.gang: Gang = gang.together(self.seen)

    @property
    def detail(self) -> str:
        """What is known besides of the one that the run's end is about."""
        cause = self.gang.cause.rank if self.gang.cause is not None else 0
        return next((str(each.detail) for each in self._known if each.rank == cause), "")

    @property
    def taken(self) -> str:
        """Which node the run does without, and why: the first that was asked to end."""
        asked = [each for each in self._known if each.stop_reason == self.gang.returns]
        first = min(asked, key=lambda each: each.stop_wanted_at)
        node = self._nodes.get(first.node_id)
        its = f"its node {node.name}" if node is not None else "its node"
        if self.gang.returns == gang.UNUSABLE:
            return f"{its} could not start it ({first.detail})"
        if first.ready_by is not None and node is not None and node.state == nodes.IDLE:
            return f"{its} is kept for a run before it, and its set-up took too long to fill a gap"
        why = f" ({node.reason})" if node is not None and node.reason else ""
        return f"{its} was taken away{why}"

    def _name(self, attempt: Any) -> str:
        node = self._nodes.get(attempt.node_id)
        return str(node.name) if node is not None else ""

    def stop(self) -> bool:
        """Ask those to end that are to; whether there are any."""
        asked = {"stop_wanted_at": self._plane.now(), "stop_reason": self.gang.reason}
        for each in self._known:
            if each.rank in self.gang.stop:
                attempts.change(self._connection, each.id, asked)
        return bool(self.gang.stop)

    def open(self, *, ended: bool) -> list[Any]:
        """Those whose end is to be noted now: all once the run has ended, else each with its own.

        One that is merely gone is looked at until then: it may come back.
        """
        return [
            each
            for each in self._known
            if each.ended_at is None and (ended or each.exit is not None)
        ]


def facts(plane: Plane, attempt: Any, preemptions: int = 0) -> Facts:
    """An attempt that was preempted counts for none."""
    gone = attempt.gone_since is not None
    return Facts(
        number=attempt.number - preemptions,
        stage=Stage(attempt.stage) if attempt.stage else None,
        exit=ExitRecord.parse(attempt.exit) if attempt.exit else None,
        phase=Phase(attempt.phase),
        gone_for_s=plane.hearing.lasting_s(attempt.id, GONE) if gone else 0.0,
        silent_for_s=plane.hearing.silent_s(attempt.id),
        elsewhere=attempt.node_id is not None,
    )


def _never_end(run: Any) -> list[int]:
    """The ranks of nodes that have nothing but parameter servers."""
    lie = roles((run.spec or {}).get("distribution"), run.node_count)
    return [rank for rank, here in enumerate(lie) if serves(here)]
