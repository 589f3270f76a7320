"""Who calls, and what they may do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, TypeVar

import anyio.from_thread
import anyio.to_thread
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from wherry.control.plane import Plane
from wherry.core.errors import AuthenticationException, ForbiddenError, TooLargeError
from wherry.store import runs, tokens

T = TypeVar("T")
_HELD_BYTES = 1 << 20


@dataclass(frozen=True)
class Caller:
    """An owner of the server, or one attempt that speaks for its run."""

    name: str
    run_id: str | None = None
    attempt_id: str | None = None


async def get_plane(request: Request) -> Plane:
    # A coroutine, as all of these: a plain function would cost a change of threads.
    plane: Plane = request.app.state.plane
    return plane


PlaneDep = Annotated[Plane, Depends(get_plane)]


async def get_caller(request: Request, plane: PlaneDep) -> Caller:
    """Whoever the bearer token belongs to."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise AuthenticationException(
            "this request carries no token",
            hint="send it as 'Authorization: Bearer TOKEN'; the token is in WHERRY_HOME/token",
        )
    if token.startswith("wa."):
        attempt_id, run_id = plane.read_attempt_token(token)
        return Caller(name=f"run:{run_id}", run_id=run_id, attempt_id=attempt_id)
    known: dict[str, str] = request.app.state.known_tokens
    name = known.get(token)
    if name is None:
        name = await run_in_threadpool(_holder, plane, token)
        if name is None:
            raise AuthenticationException(
                "the token is not valid", hint="the server's token is in WHERRY_HOME/token"
            )
        known[token] = name
    return Caller(name=name)


CallerDep = Annotated[Caller, Depends(get_caller)]


async def owner(caller: CallerDep) -> Caller:
    if caller.run_id is not None:
        raise ForbiddenError("the token of a run does not allow this")
    return caller


OwnerDep = Annotated[Caller, Depends(owner)]


async def run_caller(run_id: str, caller: CallerDep, plane: PlaneDep) -> Caller:
    """May act on the run: an owner, or the run itself for what is its own."""
    if caller.run_id is None or caller.run_id == run_id:
        return caller
    if await run_in_threadpool(_is_below, plane, run_id, caller.run_id):
        return caller
    raise ForbiddenError(f"the token of run {caller.run_id} does not reach run {run_id}")


RunCallerDep = Annotated[Caller, Depends(run_caller)]


async def workspace_caller(workspace: str, caller: CallerDep, plane: PlaneDep) -> Caller:
    """May look into the workspace: an owner, or a run that is in it."""
    if caller.run_id is None:
        return caller
    if await run_in_threadpool(_workspace_of, plane, caller.run_id) == workspace:
        return caller
    raise ForbiddenError(f"the token of run {caller.run_id} does not reach workspace {workspace!r}")


WorkspaceCallerDep = Annotated[Caller, Depends(workspace_caller)]


def _workspace_of(plane: Plane, run_id: str) -> str:
    with plane.database.read() as connection:
        return str(runs.get(connection, run_id).workspace)


def _holder(plane: Plane, token: str) -> str | None:
    with plane.database.read() as connection:
        return tokens.holder(connection, token)


def _is_below(plane: Plane, run_id: str, ancestor_id: str) -> bool:
    with plane.database.read() as connection:
        return runs.descends_from(connection, run_id, ancestor_id)


async def with_body(request: Request, limit: int, work: Callable[[Iterator[bytes]], T]) -> T:
    """The work, done in a thread on the raw body; refused beyond ``limit`` bytes.

    However slowly a body comes, it holds no thread until there is enough of it to work on; then
    one of those that are for uploads alone.
    """
    declared = request.headers.get("content-length", "")
    if len(declared) > 18 or (declared.isdecimal() and int(declared) > limit):
        raise too_large(limit)
    stream = request.stream()
    held = bytearray()
    async for piece in stream:
        held += piece
        if len(held) > limit:
            raise too_large(limit)
        if len(held) > _HELD_BYTES:
            body = chain([bytes(held)], _pieces(stream, limit - len(held), limit))
            uploads: anyio.CapacityLimiter = request.app.state.uploads
            return await anyio.to_thread.run_sync(work, body, limiter=uploads)
    return await run_in_threadpool(work, iter([bytes(held)] if held else []))


def too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"the request is larger than {limit} bytes")


def _pieces(stream: AsyncGenerator[bytes, None], left: int, limit: int) -> Iterator[bytes]:
    while True:
        try:
            piece = anyio.from_thread.run(anext, stream)
        except StopAsyncIteration:
            return
        left -= len(piece)
        if left < 0:
            raise too_large(limit)
        if piece:
            yield piece
