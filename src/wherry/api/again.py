"""Requests that met another one in the database are carried out again, by the server itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from sqlalchemy.exc import DBAPIError, IntegrityError, NoResultFound, SQLAlchemyError

from wherry.store.runs import StaleError

T = TypeVar("T")
TRIES = 3
_RETRIED = (SQLAlchemyError, StaleError)
_SERIALIZATION_FAILURE, _DEADLOCK = "40001", "40P01"


def met_another(error: Exception) -> bool:
    """Whether the transaction is gone because of another one, so that the next may succeed."""
    if isinstance(error, (StaleError, IntegrityError, NoResultFound)):
        return True
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return state in (_SERIALIZATION_FAILURE, _DEADLOCK)


def tried_again(work: Callable[[], T]) -> T:
    """The work's result. It must leave nothing behind when its transaction fails."""
    for left in reversed(range(TRIES)):
        try:
            return work()
        except _RETRIED as error:
            if not left or not met_another(error):
                raise
    raise AssertionError("unreachable")


async def carried_out(
    handle: Callable[[Request], Awaitable[Response]], request: Request
) -> Response:
    """The answer. A body that was read whole is kept with the request; a streamed one is gone."""
    for _ in range(TRIES - 1):
        try:
            return await handle(request)
        except _RETRIED as error:
            if getattr(request.state, "streamed", False) or not met_another(error):
                raise
    return await handle(request)


class Again(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_again(request: Request) -> Response:
            return await carried_out(handle, request)

        return handle_again
