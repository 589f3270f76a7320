"""The requests that every run makes, on a short way to their endpoints.

To find one among all routes, and what FastAPI then prepares and checks, takes three times as long
as the work. What is decided about a request is the same on both ways: ``guard.admit`` says who may,
``again.carried_out`` repeats what met another request, ``problems.answer`` words what went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from . import problems
from .access import PREFIX, Who, who_may
from .again import carried_out
from .guard import admit
from .reading import read_query

Endpoint = Callable[..., Awaitable[Response]]
E = TypeVar("E", bound=Endpoint)


@dataclass(frozen=True)
class _Way:
    method: str
    path: re.Pattern[str]
    who: Who
    endpoint: Endpoint
    query: type[BaseModel] | None

    async def go(self, request: Request) -> Response:
        request.scope["caller"] = await admit(request, self.who)
        return await carried_out(self._call, request)

    async def _call(self, request: Request) -> Response:
        asked = {"query": read_query(request, self.query)} if self.query else {}
        return await self.endpoint(**request.path_params, request=request, **asked)


_ways: list[_Way] = []


def brief(method: str, path: str, query: type[BaseModel] | None = None) -> Callable[[E], E]:
    """For an endpoint of that route: it takes the request and answers with a response itself."""

    def note(endpoint: E) -> E:
        pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", PREFIX + path))
        _ways.append(_Way(method, pattern, who_may(method, PREFIX + path), endpoint, query))
        return endpoint

    return note


class Lane:
    """Around the application: takes those requests, and passes the others on."""

    def __init__(self, app: ASGIApp, routes: FastAPI) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _found(scope)
        if found is None:
            await self._app(scope, receive, send)
            return
        way, parameters = found
        scope.update(app=self._routes, path_params=parameters)
        request = Request(scope, receive, send)
        try:
            response = await way.go(request)
        except Exception as error:  # noqa: BLE001  # answered with what there is to say of it
            response = problems.answer(request, error)
        await response(scope, receive, send)


def _found(scope: Scope) -> tuple[_Way, dict[str, Any]] | None:
    if scope["type"] != "http":
        return None
    for way in _ways:
        if way.method == scope["method"]:
            match = way.path.fullmatch(scope["path"])
            if match:
                return way, match.groupdict()
    return None
