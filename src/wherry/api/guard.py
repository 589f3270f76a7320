"""Lets only those through to a route whom the list of access names."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from wherry.control.plane import Plane
from wherry.core.errors import ForbiddenError
from wherry.store import families, runs, snapshots, workspaces

from .access import PREFIX, Who, who_may
from .again import Again
from .callers import NOBODY, Caller, authenticate


class GuardedRoute(Again):
    """Asks before the body is read; not as a dependency, which would take longer than the work."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        (method,) = self.methods or {"GET"}
        who = who_may(method, self.path_format)

        async def guarded(request: Request) -> Response:
            request.scope["caller"] = await admit(request, who)
            return await handle(request)

        return guarded


def guarded_router(tag: str, prefix: str = PREFIX, **options: Any) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=GuardedRoute, **options)


async def admit(request: Request, who: Who) -> Caller:
    """The caller, if it is one of those."""
    if who is Who.ANYONE:
        return NOBODY
    plane: Plane = request.app.state.plane
    caller = await authenticate(request, plane)
    if caller.workspace is not None:
        await _admit_instance(plane, who, caller, request)
    elif caller.run_id is None:
        if who is Who.ATTEMPT:
            raise ForbiddenError("only the attempt itself may do this")
    elif not _plainly_allowed(who, caller, request):
        await run_in_threadpool(_check, plane, who, caller, dict(request.path_params))
    return caller


def _plainly_allowed(who: Who, caller: Caller, request: Request) -> bool:
    """What can be told from the request alone."""
    wanted = request.path_params
    if who is Who.ATTEMPT:
        attempt_id = wanted.get("attempt_id") or request.query_params.get("attempt")
        if caller.attempt_id != attempt_id or wanted.get("run_id", caller.run_id) != caller.run_id:
            raise ForbiddenError("only the attempt itself may do this")
        return True
    if who in (Who.OWNER, Who.INSTANCE, Who.VISITOR):
        raise ForbiddenError("the token of a run does not allow this")
    return who is Who.TOKEN or (who is Who.RUN and wanted["run_id"] == caller.run_id)


async def _admit_instance(plane: Plane, who: Who, caller: Caller, request: Request) -> None:
    """To what belongs to its workspace."""
    wanted = dict(request.path_params)
    if who is Who.ATTEMPT:
        raise ForbiddenError("only the attempt itself may do this")
    if who is Who.OWNER:
        raise ForbiddenError("the token of a compute instance does not allow this")
    if who is Who.TOKEN or wanted.get("workspace") == caller.workspace:
        return
    if "workspace" in wanted or not await run_in_threadpool(_is_of, plane, caller, wanted):
        raise ForbiddenError(
            "the token of a compute instance does not reach beyond its workspace "
            f"{caller.workspace!r}"
        )


def _is_of(plane: Plane, caller: Caller, wanted: Mapping[str, str]) -> bool:
    """Whether the run, or all snapshots that are asked for, belong to the caller's workspace."""
    with plane.database.read() as connection:
        if "run_id" in wanted:
            return bool(runs.get(connection, wanted["run_id"]).workspace == caller.workspace)
        workspace = workspaces.get(connection, caller.workspace or "")
        return all(snapshots.has(connection, workspace.id, each) for each in wanted.values())


def _check(plane: Plane, who: Who, caller: Caller, wanted: Mapping[str, str]) -> None:
    run_id = caller.run_id or ""
    with plane.database.read() as connection:
        if who is Who.RUN:
            if not families.descends_from(connection, wanted["run_id"], run_id):
                raise ForbiddenError(
                    f"the token of run {run_id} does not reach run {wanted['run_id']}"
                )
        elif who is Who.SNAPSHOT:
            run = runs.get(connection, run_id)
            if wanted["snapshot_id"] not in (run.snapshot_id, run.context_id):
                raise ForbiddenError(f"run {run_id} does not use this snapshot")
        elif runs.get(connection, run_id).workspace != wanted["workspace"]:
            raise ForbiddenError(
                f"the token of run {run_id} does not reach workspace {wanted['workspace']!r}"
            )
