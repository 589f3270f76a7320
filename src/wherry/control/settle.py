"""Facts about an attempt turned into the run's next status, in one transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from wherry.core import endings
from wherry.core.lifecycle import (
    Decision,
    ExitRecord,
    Reason,
    Status,
    decide,
)
from wherry.store import attempts, families, runs
from wherry.store.runs import Change

from . import costs, node_refusals
from .members import Members, facts
from .plane import Plane


class Settled(NamedTuple):
    """The status that the run was given, if any; whether someone wants this attempt to end.

    ``others``: some of the run's other nodes are to end as well.
    """

    status: Status | None
    cancel_requested: bool
    others: bool = False


def settle(
    plane: Plane, connection: Connection, attempt: Any, changes: Mapping[str, Any]
) -> Settled:
    """Keep what is new about the attempt, and move its run as all that is known calls for.

    An attempt that has ended moves nothing any more: its run may have another one.
    """
    run = runs.get(connection, attempt.run_id, lock=True)
    if attempt.ended_at is None and (run.node_count > 1 or attempt.stop_reason is not None):
        return _settle_members(plane, connection, run, attempt, changes)
    cancel_requested = run.cancel_requested_at is not None
    known = SimpleNamespace(**{**attempt._mapping, **changes})
    decision = None
    if attempt.ended_at is None:
        seen = facts(plane, known, run.preemptions)
        decision = decide(Status(run.status), seen, cancel_requested=cancel_requested)
    if decision is not None:
        exit = ExitRecord.parse(known.exit) if known.exit else None
        finish(plane, connection, run, decision, exit=exit, detail=known.detail)
        if decision.status.terminal or decision.status is Status.QUEUED:
            changes = {**changes, "ended_at": plane.now()}
            if attempt.node_id is not None:
                _free_node(plane, connection, run, known)
    if changes:
        attempts.change(connection, attempt.id, changes)
    return Settled(decision.status if decision else None, cancel_requested)


def _settle_members(
    plane: Plane, connection: Connection, run: Any, attempt: Any, changes: Mapping[str, Any]
) -> Settled:
    """The same for a run on several nodes, or one that is asked to end for another's sake."""
    if changes:
        attempts.change(connection, attempt.id, changes)
    cancel_requested = run.cancel_requested_at is not None
    members = Members(plane, connection, run, attempt, changes)
    others = members.stop()
    decision = _decide(run, members, cancel_requested)
    if decision is not None:
        detail = members.taken if members.gang.returns else members.detail
        about_one = decision.status in (Status.FAILED, Status.QUEUED) and not members.gang.returns
        tell = members.gang.tell if about_one else None
        exit = members.gang.facts.exit
        finish(plane, connection, run, decision, exit=exit, detail=detail, tell=tell)
    if decision is not None and decision.status is Status.QUEUED and members.gang.returns:
        runs.update_fields(connection, run, {"preemptions": run.preemptions + 1})
    over = decision is not None and (decision.status.terminal or decision.status is Status.QUEUED)
    for each in members.open(ended=over):
        attempts.change(connection, each.id, {"ended_at": plane.now()})
        if each.node_id is not None:
            _free_node(plane, connection, run, each)
    wanted = cancel_requested or attempt.stop_wanted_at is not None
    return Settled(decision.status if decision else None, wanted, others)


def _free_node(plane: Plane, connection: Connection, run: Any, attempt: Any) -> None:
    """It can be used by another, unless it was found to be full."""
    costs.attempt_ended(connection, run, attempt, plane.now())
    if attempt.exit and attempt.exit.get("no_room"):
        reason, now = str(attempt.exit["setup_error"]), plane.now()
        node_refusals.count(connection, attempt.node_id, reason, now, 0, at_once=True)


def _decide(run: Any, members: Members, cancel_requested: bool) -> Decision | None:
    if members.gang.returns and not cancel_requested:
        return Decision(Status.QUEUED, Reason(members.gang.returns))
    seen = members.gang.facts
    return decide(Status(run.status), seen, cancel_requested=cancel_requested)


def finish(
    plane: Plane,
    connection: Connection,
    run: Any,
    decision: Decision,
    *,
    exit: ExitRecord | None = None,
    detail: str = "",
    tell: Callable[[str], str] | None = None,
) -> None:
    """Move the run, tell why, and take its open children along when it ends.

    ``tell`` says whom of several nodes it is about.
    """
    spec = run.spec or {}
    environment = spec.get("environment") or {}
    sentence, error = endings.describe(
        decision.reason,
        exit,
        detail=detail,
        limit_s=spec.get("max_run_duration_s"),
        interpreter=environment.get("interpreter_path", ""),
        environment=environment.get("name", "") if environment.get("specification") else "",
    )
    if tell is not None:
        sentence = tell(sentence)
        error = {**error, "message": tell(str(error["message"]))} if error else error
    change = Change(decision.reason, sentence, error, *_times(plane, run, exit))
    runs.move(connection, run, decision.status, plane.now(), change)
    plane.changed(run.id)
    if not decision.status.terminal:
        return
    for child in families.children(connection, run.id, recursive=False):
        if child.target is None and not Status(child.status).terminal:
            follow = dataclasses.replace(decision, reason=decision.reason or Reason.REPORTED)
            finish(plane, connection, child, follow, exit=exit, detail=detail)


def _times(
    plane: Plane, run: Any, exit: ExitRecord | None
) -> tuple[datetime | None, datetime | None]:
    """When the command began and ended, by the node's clock; the server may hear of it later."""
    if exit is None or not exit.started_at or not exit.ended_at:
        return None, None
    first, last = run.submitted_at, plane.now()
    began, ended = (
        min(max(datetime.fromtimestamp(at, UTC), first), last)
        for at in (exit.started_at, exit.ended_at)
    )
    return began, max(began, ended)
