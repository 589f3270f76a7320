"""What people do with runs once they exist: look, label, cancel, end, archive, delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.lifecycle import Decision, ExitRecord, Reason, Status
from wherry.core.nearest import suggest
from wherry.core.records import Page, Run
from wherry.core.targets import key, name_of
from wherry.store import (
    attempts,
    families,
    files,
    listing,
    metrics,
    run_inputs,
    run_labels,
    run_names,
    run_records,
    runs,
    streams,
    workspaces,
)

from . import run_logs
from .exits import error_fields
from .plane import Plane
from .settle import finish
from .waiting import explain

_ENDS = {"Completed", "Failed", "Canceled"}
_GUESSED = 200
_MAX_NAME = 10_000
_UNSTARTED = {Status.NOT_STARTED.value, Status.QUEUED.value}


def show(plane: Plane, run_id: str) -> Run:
    with plane.database.read() as connection:
        return record(plane, connection, runs.get(connection, run_id))


def record(plane: Plane, connection: Connection, row: Any) -> Run:
    """With the sentence that says what the run waits for."""
    told = explain(plane, connection, [row])
    return run_records.to_records(connection, [row], spec=True, messages=told)[0]


def page(
    plane: Plane, workspace_name: str, wanted: listing.Filter, limit: int, cursor: str | None
) -> Page:
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if wanted.target:
            wanted = dataclasses.replace(wanted, target=key(workspace.name, wanted.target))
        rows, following = listing.page(connection, workspace.id, wanted, limit, cursor)
        items = run_records.to_records(connection, rows, messages=explain(plane, connection, rows))
    return Page(items, following)


def resolve(plane: Plane, workspace_name: str, text: str) -> Run:
    """The one run that an id, the beginning of one, its ending or a display name means."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        exact = runs.find(connection, text)
        if exact is not None and exact.workspace_id == workspace.id:
            return record(plane, connection, exact)
        short = len(text) <= _MAX_NAME
        found = run_names.starting_with(connection, workspace.id, text, limit=11) if short else []
        if len(found) == 1:
            return record(plane, connection, found[0])
        if not found:
            known = run_names.newest(connection, workspace.id, _GUESSED)
            raise NotFoundError(
                f"workspace {workspace_name!r} has no run {text!r}{suggest(text, known)}",
                hint="wherry ps lists the runs",
            )
        candidates = [row.id for row in found]
        more = " and more" if len(found) > 10 else ""
        raise ConflictError(
            f"{text!r} could be {', '.join(candidates[:10])}{more}",
            hint="give a few more characters",
            candidates=candidates,
        )


def change(plane: Plane, run_id: str, changes: Mapping[str, Any]) -> Run:
    """Labels, names and the archive."""
    now = plane.now()
    with plane.write() as connection:
        row = runs.get(connection, run_id, lock=True)
        fields: dict[str, Any] = {
            name: changes[name]
            for name in ("display_name", "description")
            if changes.get(name) is not None
        }
        if changes.get("archived") is not None:
            fields["archived_at"] = now if changes["archived"] else None
        if fields:
            runs.update_fields(connection, row, fields)
        tags, removed = changes.get("tags") or {}, changes.get("remove_tags") or []
        run_labels.change(connection, row, run_labels.TAG, tags, removed)
        run_labels.change(connection, row, run_labels.PROPERTY, changes.get("properties") or {})
        return record(plane, connection, runs.get(connection, run_id))


def cancel(plane: Plane, run_id: str) -> Run:
    """At once where no process is; else the reconciler sees to it. An end stays as it is."""
    with plane.write() as connection:
        row = runs.get(connection, run_id, lock=True)
        if not Status(row.status).terminal:
            below = families.children(connection, run_id, recursive=True, lock=True)
            for each in [*below, row]:
                runs.request_cancel(connection, each, plane.now())
                if each.status in _UNSTARTED or (
                    each.target is None and not Status(each.status).terminal
                ):
                    finish(plane, connection, each, Decision(Status.CANCELED, Reason.CANCELED))
        result = record(plane, connection, runs.get(connection, run_id))
    plane.changed(run_id)
    if row.target is not None:
        plane.hint(row.target)
    return result


def end(plane: Plane, run_id: str, status: str, error: Mapping[str, Any] | None) -> Run:
    """The client's word on a run that it drives itself."""
    if status not in _ENDS:
        raise UserErrorException(f"a run ends as {', '.join(sorted(_ENDS))}, not as {status!r}")
    with plane.write() as connection:
        row = runs.get(connection, run_id, lock=True)
        if row.target is not None:
            raise ConflictError(f"run {run_id} is driven by target {name_of(row.target)!r}")
        if not Status(row.status).terminal:
            reason = {
                "Completed": Reason.SUCCEEDED,
                "Canceled": Reason.CANCELED,
                "Failed": Reason.REPORTED,
            }[status]
            told = error_fields(error)
            detail = str((told or {}).get("message") or "")
            decision = Decision(Status(status), reason)
            record_of = ExitRecord(error=told)
            finish(plane, connection, row, decision, exit=record_of, detail=detail)
        return record(plane, connection, runs.get(connection, run_id))


def remove(plane: Plane, run_id: str) -> None:
    """The run, what is below it, and everything that was stored for them."""
    with plane.write() as connection:
        below = families.children(connection, run_id, recursive=True, lock=True)
        rows = [runs.get(connection, run_id, lock=True), *below]
        live = [row.id for row in rows if not Status(row.status).terminal]
        if live:
            raise ConflictError(
                f"run {live[0]} has not ended", hint=f"wherry job cancel {live[0]}, then delete"
            )
        ids = [row.id for row in rows]
        tries = [attempt for each in ids for attempt in attempts.of_run(connection, each)]
        logs = [run_logs.named(plane, each, _of(tries, each)) for each in ids]
        files.remove(connection, ids)
        metrics.remove(connection, [row.seq for row in rows])
        run_inputs.remove(connection, [row.seq for row in rows])
        streams.remove(connection, ids)
        attempts.remove(connection, ids)
        runs.remove(connection, rows)
    for where in {where for named in logs for where in named.values()}:
        plane.logs.remove(where)


def _of(tries: Sequence[Any], run_id: str) -> list[Any]:
    return [each for each in tries if each.run_id == run_id]
