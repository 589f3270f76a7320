"""What routes ask for: the plane, the caller, the body piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import chain
from typing import Annotated, TypeVar

import anyio.from_thread
import anyio.to_thread
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from wherry.control.plane import Plane
from wherry.core.errors import TooLargeError

from .again import tried_again
from .callers import Caller
from .held import Held

T = TypeVar("T")
_BEGINNING = 1 << 20


async def get_plane(request: Request) -> Plane:
    # A coroutine, as all of these: a plain function would cost a change of threads.
    plane: Plane = request.app.state.plane
    return plane


PlaneDep = Annotated[Plane, Depends(get_plane)]


async def get_caller(request: Request) -> Caller:
    """Whom the guard has let through."""
    caller: Caller = request.scope["caller"]
    return caller


CallerDep = Annotated[Caller, Depends(get_caller)]


async def with_body(request: Request, limit: int, work: Callable[[Iterator[bytes]], T]) -> T:
    """The work, done in a thread on the raw body; refused beyond ``limit`` bytes.

    However slowly a body comes, it holds no thread until there is enough of it to work on; then
    one of those that are for uploads alone.
    """
    stream = _stream(request, limit)
    held: Held = request.app.state.held
    begun = bytearray()
    with held.share() as share:
        async for piece in stream:
            held.take(share, len(piece))
            begun += piece
            if len(begun) > limit:
                raise too_large(limit)
            if len(begun) > _BEGINNING:
                body = chain([bytes(begun)], _pieces(stream, limit - len(begun), limit))
                uploads: anyio.CapacityLimiter = request.app.state.uploads
                return await anyio.to_thread.run_sync(work, body, limiter=uploads)
        pieces = [bytes(begun)] if begun else []
        return await run_in_threadpool(tried_again, lambda: work(iter(pieces)))


async def with_whole_body(request: Request, limit: int, work: Callable[[list[bytes]], T]) -> T:
    """The same for a body that is short enough to be held whole, in the pieces that came."""
    stream = _stream(request, limit)
    held: Held = request.app.state.held
    pieces: list[bytes] = []
    with held.share() as share:
        async for piece in stream:
            held.take(share, len(piece))
            if share.taken > limit:
                raise too_large(limit)
            pieces.append(piece)
        return await run_in_threadpool(tried_again, lambda: work(pieces))


def _stream(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    declared = request.headers.get("content-length", "")
    if len(declared) > 18 or (declared.isdecimal() and int(declared) > limit):
        raise too_large(limit)
    request.state.streamed = True
    return request.stream()


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
