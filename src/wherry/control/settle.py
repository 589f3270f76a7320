"""Facts about an attempt turned into the run's next status, in one transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from wherry.core import endings
from wherry.core.lifecycle import (
    Decision,
    ExitRecord,
    Facts,
    Phase,
    Reason,
    Stage,
    Status,
    decide,
)
from wherry.store import attempts, runs
from wherry.store.runs import Change

from . import costs
from .hearing import GONE
from .plane import Plane


class Settled(NamedTuple):
    """The status that the run was given, if any, and whether someone wants it ended."""

    status: Status | None
    cancel_requested: bool


def settle(
    plane: Plane, connection: Connection, attempt: Any, changes: Mapping[str, Any]
) -> Settled:
    """Keep what is new about the attempt, and move its run as all that is known calls for.

    An attempt that has ended moves nothing any more: its run may have another one.
    """
    run = runs.get(connection, attempt.run_id, lock=True)
    cancel_requested = run.cancel_requested_at is not None
    known = SimpleNamespace(**{**attempt._mapping, **changes})
    decision = None
    if attempt.ended_at is None:
        seen = facts(plane, known)
        decision = decide(Status(run.status), seen, cancel_requested=cancel_requested)
    if decision is not None:
        exit = ExitRecord.parse(known.exit) if known.exit else None
        finish(plane, connection, run, decision, exit=exit, detail=known.detail)
        if decision.status.terminal or decision.status is Status.QUEUED:
            changes = {**changes, "ended_at": plane.now()}
            if attempt.node_id is not None:
                costs.attempt_ended(connection, run, attempt, plane.now())
    if changes:
        attempts.change(connection, attempt.id, changes)
    return Settled(decision.status if decision else None, cancel_requested)


def finish(
    plane: Plane,
    connection: Connection,
    run: Any,
    decision: Decision,
    *,
    exit: ExitRecord | None = None,
    detail: str = "",
) -> None:
    """Move the run, tell why, and take its open children along when it ends."""
    spec = run.spec or {}
    sentence, error = endings.describe(
        decision.reason,
        exit,
        detail=detail,
        limit_s=spec.get("max_run_duration_s"),
        interpreter=spec.get("environment", {}).get("interpreter_path", ""),
    )
    change = Change(decision.reason, sentence, error, *_times(plane, run, exit))
    runs.move(connection, run, decision.status, plane.now(), change)
    plane.changed(run.id)
    if not decision.status.terminal:
        return
    for child in runs.children(connection, run.id, recursive=False):
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


def facts(plane: Plane, attempt: Any) -> Facts:
    gone = attempt.gone_since is not None
    return Facts(
        number=attempt.number,
        stage=Stage(attempt.stage) if attempt.stage else None,
        exit=ExitRecord.parse(attempt.exit) if attempt.exit else None,
        phase=Phase(attempt.phase),
        gone_for_s=plane.hearing.lasting_s(attempt.id, GONE) if gone else 0.0,
        silent_for_s=plane.hearing.silent_s(attempt.id),
    )
