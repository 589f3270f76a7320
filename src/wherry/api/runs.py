"""Runs over HTTP: submit, list, show, wait, change, cancel, delete."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from wherry.control import finding, runs
from wherry.control.files import log_names
from wherry.control.plane import Plane
from wherry.control.submit import plan, start_interactive, submit
from wherry.control.submit_many import submit_many
from wherry.core.errors import ForbiddenError, UserErrorException
from wherry.core.lifecycle import Status
from wherry.core.records import Run
from wherry.store import families, run_records
from wherry.store import runs as rows
from wherry.store.listing import Filter

from .bodies import NewInteractiveRun, NewRun, NewRuns, Patience, RunChanges, RunEnd
from .callers import Caller
from .deps import CallerDep, PlaneDep, get_caller, get_plane
from .description import refusal
from .guard import guarded_router
from .lane import brief
from .plain_json import PlainJSON
from .reading import described, read_body
from .showing import shown

router = guarded_router("runs")
_MAX_FILTERS = 50
_TERMINAL = {status.value for status in Status if status.terminal}


@router.post(
    "/workspaces/{workspace}/runs",
    status_code=201,
    response_class=PlainJSON,
    responses={200: {"description": "The run that the same submission_key made before."}},
    openapi_extra=described(NewRun),
)
@brief("POST", "/workspaces/{workspace}/runs")
async def submit_run(workspace: str, request: Request) -> PlainJSON:
    plane = await get_plane(request)
    caller = await get_caller(request)
    fields = (await read_body(request, NewRun)).model_dump()
    run, created = await run_in_threadpool(_submit, plane, workspace, fields, caller)
    return PlainJSON(shown(request, run), status_code=201 if created else 200)


def _submit(
    plane: Plane, workspace: str, fields: dict[str, Any], caller: Caller
) -> tuple[Run, bool]:
    _only_below(plane, caller, fields["parent_id"])
    run, created = submit(plane, workspace, fields, caller.name)
    if not created:
        _only_below(plane, caller, run.id)  # another one's key tells nothing
    return run, created


@router.post("/workspaces/{workspace}/runs/bulk", status_code=201)
def submit_runs(
    workspace: str, body: NewRuns, plane: PlaneDep, caller: CallerDep
) -> dict[str, list[dict[str, Any]]]:
    """Many runs at once: all of them or none. Each with its id, and whether it is new."""
    many = [each.model_dump() for each in body.runs]
    made = submit_many(plane, workspace, many, caller.name)
    return {"items": [{"id": run_id, "created": created} for run_id, created in made]}


@router.post("/workspaces/{workspace}/runs/plan")
def plan_run(workspace: str, body: NewRun, plane: PlaneDep) -> dict[str, Any]:
    return plan(plane, workspace, body.model_dump())


@router.post("/workspaces/{workspace}/runs/interactive", status_code=201)
def start_run(
    workspace: str, body: NewInteractiveRun, plane: PlaneDep, caller: CallerDep
) -> dict[str, Any]:
    _only_below(plane, caller, body.parent_id)
    return start_interactive(plane, workspace, body.model_dump(), caller.name).to_dict()


@router.get("/workspaces/{workspace}/runs", response_class=PlainJSON)
def list_runs(
    workspace: str,
    plane: PlaneDep,
    experiment: str | None = None,
    status: Annotated[list[str] | None, Query()] = None,
    type: str | None = None,
    target: str | None = None,
    tag: Annotated[list[str] | None, Query()] = None,
    property: Annotated[list[str] | None, Query()] = None,
    parent_id: str | None = None,
    include_children: bool = False,
    archived: Literal["active", "archived", "all"] = "active",
    order_by: str = "-submitted_at",
    filter: str = "",
    include: Annotated[list[Literal["metrics", "arguments"]] | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    cursor: str | None = None,
) -> PlainJSON:
    """Runs by fields, by a ``filter`` in words, in an order, page by page.

    A filter is like ``metrics.auc > 0.8 and tags.team = 'x'``, and ``order_by`` may be
    ``-metrics.auc``. ``include`` adds to each run the last values of its metrics, or the arguments
    of its script.
    """
    wanted = Filter(
        experiment=experiment,
        statuses=list(dict.fromkeys(status or ())),
        type=type,
        target=target,
        tags=_pairs(tag),
        properties=_pairs(property),
        parent_id=parent_id,
        include_children=include_children,
        archived=archived,
        order_by=order_by,
    )
    found = finding.page(
        plane, workspace, wanted, limit, cursor, text=filter, include=include or ()
    )
    return PlainJSON(found)  # as it is: FastAPI would look at every field of every run


@router.get(
    "/workspaces/{workspace}/runs/resolve/{text}", responses={409: refusal("Several runs fit.")}
)
def resolve_run(workspace: str, text: str, request: Request, plane: PlaneDep) -> dict[str, Any]:
    return shown(request, runs.resolve(plane, workspace, text))


@router.get("/runs/{run_id}", response_class=PlainJSON)
def show_run(run_id: str, request: Request, plane: PlaneDep) -> PlainJSON:
    return PlainJSON(shown(request, runs.show(plane, run_id)))


@router.get("/runs/{run_id}/wait", response_class=PlainJSON)
@brief("GET", "/runs/{run_id}/wait", query=Patience)
async def wait_for_run(
    run_id: str, request: Request, query: Annotated[Patience, Query()]
) -> PlainJSON:
    """Answers when the run has ended, time is up, or (until=change) its status is not ``seen``."""
    plane = await get_plane(request)
    deadline = time.monotonic() + query.timeout_s
    with plane.signals.subscribe(run_id) as subscription:
        while True:
            left = deadline - time.monotonic()
            over = left <= 0 or request.app.state.stopping.is_set()
            run = await run_in_threadpool(_awaited, request, query, run_id, at_any_rate=over)
            if run is not None:
                return PlainJSON(run)
            await subscription.changed(min(left, 1.0))
            if await request.is_disconnected():
                return PlainJSON({})  # nobody hears it


def _awaited(
    request: Request, query: Patience, run_id: str, *, at_any_rate: bool
) -> dict[str, Any] | None:
    """The run if it is what was waited for, once it has ended with its ``log_names``."""
    plane: Plane = request.app.state.plane
    with plane.database.read() as connection:
        status = rows.status(connection, run_id)
        ended = status in _TERMINAL
        changed = query.until == "change" and status != query.seen
        if not (ended or changed or at_any_rate):
            return None
        run = shown(request, runs.record(plane, connection, rows.get(connection, run_id)))
        if ended:
            run["log_names"] = log_names(plane, connection, run_id)
    return run


@router.patch("/runs/{run_id}")
def change_run(run_id: str, body: RunChanges, request: Request, plane: PlaneDep) -> dict[str, Any]:
    return shown(request, runs.change(plane, run_id, body.model_dump()))


@router.post("/runs/{run_id}/cancel")
def cancel_run(run_id: str, request: Request, plane: PlaneDep) -> dict[str, Any]:
    return shown(request, runs.cancel(plane, run_id))


@router.post("/runs/{run_id}/end")
def end_run(run_id: str, body: RunEnd, request: Request, plane: PlaneDep) -> dict[str, Any]:
    return shown(request, runs.end(plane, run_id, body.status, body.error))


@router.delete("/runs/{run_id}", status_code=204)
def delete_run(run_id: str, plane: PlaneDep) -> Response:
    runs.remove(plane, run_id)
    return Response(status_code=204)


@router.get("/runs/{run_id}/children")
def list_children(run_id: str, plane: PlaneDep, recursive: bool = False) -> dict[str, Any]:
    with plane.database.read() as connection:
        rows.get(connection, run_id)
        found = families.children(connection, run_id, recursive=recursive)
        return {"items": [run.to_dict() for run in run_records.to_records(connection, found)]}


@router.get("/runs/{run_id}/events")
def list_events(run_id: str, plane: PlaneDep) -> dict[str, Any]:
    with plane.database.read() as connection:
        rows.get(connection, run_id)
        found = [event.to_dict() for event in rows.history(connection, run_id)]
    for event in found:
        event["from"], event["to"] = event.pop("from_status"), event.pop("to_status")
    return {"items": found}


def _only_below(plane: Plane, caller: Caller, parent_id: str | None) -> None:
    if caller.run_id is None:
        return
    with plane.database.read() as connection:
        if parent_id is None or not families.descends_from(connection, parent_id, caller.run_id):
            raise ForbiddenError(f"run {caller.run_id} may only make runs below itself")


def _pairs(texts: list[str] | None) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    if texts and len(texts) > _MAX_FILTERS:
        raise UserErrorException(f"a listing has at most {_MAX_FILTERS} filters of a kind")
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not key:
            raise UserErrorException(f"{text!r} is not a filter", hint="write it as key=value")
        pairs[key] = value if equals else None
    return pairs
