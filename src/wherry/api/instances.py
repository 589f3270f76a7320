"""Compute instances through this server: who is let in, and what of theirs is passed on.

Everything below ``/instances/{workspace}/{name}/`` goes to the JupyterLab of that instance. Which
one it is, and whether this caller is let in to it, is read from the same part of the address, as
it was sent: no other way to write an address leads to another instance.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wherry.control import instance_logins
from wherry.control.plane import Plane
from wherry.control.traffic import Traffic
from wherry.core.errors import (
    AuthenticationException,
    ForbiddenError,
    NotFoundError,
    ServerUnavailableError,
    TargetUnavailableError,
)
from wherry.core.targets import instance_path, key

from . import limits
from .access import who_may
from .deps import PlaneDep
from .forwarding import Forwarding, SilentError, is_websocket, scheme_of
from .guard import admit, guarded_router
from .instance_pages import refusal, wants_page
from .known_doors import KnownDoors
from .names import Names
from .upstream import BrokenAnswerError, Headers, NotThereError

log = logging.getLogger(__name__)
router = guarded_router("instances")
PREFIX = b"/instances/"
_WHO = who_may("*", "/instances/{workspace}/{name}/{path}")
_SAFE = ("GET", "HEAD", "OPTIONS")
_FIRST_PAGE = "lab"


@router.post("/workspaces/{workspace}/computes/{compute}/open")
def open_compute(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    """An address for a browser, good once and for a minute, that lets it in to the instance."""
    return instance_logins.open_instance(plane, workspace, compute)


class Instances:
    """Around the application: takes those requests, and passes the others on."""

    def __init__(self, app: ASGIApp, routes: FastAPI, names: Names) -> None:
        plane: Plane = routes.state.plane
        self._app = app
        self._routes = routes
        self._plane = plane
        self._names = names
        self._doors = KnownDoors(plane)
        self._cookie = f"wherry-{plane.server_id[:8]}"
        self._at_once = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _path(scope).startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        scope["app"] = self._routes
        visit = Visit(Request(scope, receive, send))
        forwarding = Forwarding(scope, receive, send, self._cookie.encode())
        try:
            response = await self._let_in(visit)
            if response is None:
                await self._passed_on(visit, forwarding)
        except Exception as error:  # noqa: BLE001  # answered with what there is to say of it
            if forwarding.answered:
                log.warning("the answer of compute instance %s broke off", visit.name)
                return  # the connection is closed: its client sees that there is less
            response = refusal(visit.request, error, visit.name)
        if response is not None:
            await response(scope, receive, send)

    async def _let_in(self, visit: Visit) -> Response | None:
        """What is answered here; None where the request is to be passed on."""
        visit.check()
        if visit.lacks_slash:
            return _to(visit.base)
        elsewhere = self._names.for_instances(visit.host)
        if elsewhere is not None and visit.is_of_browser:
            return _to(f"{visit.scheme}://{elsewhere}{visit.target}")
        known = await self._doors.instance_id(visit.at)
        if visit.code and known and self._plane.codes.use(visit.code, known, self._plane.now()):
            return _to(visit.base + _FIRST_PAGE, dict([self._set_cookie(visit, known)]))
        visit.check_origin()
        if visit.has_bearer:
            await admit(visit.request, _WHO)
        else:
            self._check_cookie(visit, known)
        if visit.code:
            return _to(visit.base + _FIRST_PAGE)
        return visit.without_token()

    def _check_cookie(self, visit: Visit, known: str | None) -> None:
        value = visit.request.cookies.get(self._cookie, "")
        left = instance_logins.left(self._plane, known, value) if known and value else None
        if left is None:
            raise visit.unknown(had_cookie=bool(value))
        if known and left < instance_logins.RENEWED_AFTER:
            name, cookie = self._set_cookie(visit, known)
            visit.more.append((name.encode(), cookie.encode()))

    def _set_cookie(self, visit: Visit, known: str) -> tuple[str, str]:
        response = Response()
        response.set_cookie(
            self._cookie,
            instance_logins.cookie(self._plane, known),
            max_age=int(instance_logins.COOKIE_LASTS.total_seconds()),
            path=visit.base,
            secure=visit.scheme == "https",
            httponly=True,
            samesite="lax",
        )
        return "set-cookie", response.headers["set-cookie"]

    async def _passed_on(self, visit: Visit, forwarding: Forwarding) -> None:
        if self._at_once >= limits.proxied():
            raise ServerUnavailableError(
                f"the server passes on {limits.proxied()} requests already: try again later"
            )
        self._at_once += 1
        try:
            await self._pass_on(visit, forwarding)
        finally:
            self._at_once -= 1

    async def _pass_on(self, visit: Visit, forwarding: Forwarding) -> None:
        """Once more where JupyterLab was started again since it was last asked for."""
        traffic = self._plane.traffic.setdefault(key(*visit.at), Traffic())
        websocket = partial(traffic.websocket, self._plane.now)
        for again in (False, True):
            door = await self._doors.door(visit.at)
            traffic.last_request_at = self._plane.now()
            try:
                return await forwarding.go(door, visit.more, websocket)
            except NotThereError:
                self._doors.forget(visit.at)
                if again or forwarding.begun:
                    raise visit.unavailable("does not answer") from None
            except SilentError:
                wanted = f"has not answered for {limits.ANSWER_S} s"
                raise visit.unavailable(wanted) from None
            except BrokenAnswerError:
                if forwarding.answered:
                    raise
                raise visit.unavailable("gave an answer that makes no sense") from None
        return None


class Visit:
    """One request, taken apart. ``more`` is for the head of its answer."""

    def __init__(self, request: Request) -> None:
        self.request = request
        scope = request.scope
        _, _, workspace, *rest = scope["raw_path"].decode("ascii").split("/")
        self._path: list[str] = rest
        self.name = unquote(rest[0]) if rest else ""
        self.at = (unquote(workspace), self.name)
        scope["path_params"] = {"workspace": self.at[0], "name": self.name}
        self.base = instance_path(key(*self.at))
        self.host = request.headers.get("host", "")
        self.scheme = scheme_of(scope)
        self.target = _target(scope, scope["query_string"].decode("latin-1"))
        self.more: Headers = []

    @property
    def code(self) -> str:
        """That this is a visit with."""
        if self.request.method != "GET" or self._path[1:] != [""]:
            return ""
        return self.request.query_params.get("code", "")

    @property
    def lacks_slash(self) -> bool:
        return self.request.method == "GET" and len(self._path) == 1

    @property
    def has_bearer(self) -> bool:
        return self.request.headers.get("authorization", "").lower().startswith("bearer ")

    @property
    def is_of_browser(self) -> bool:
        return wants_page(self.request) and not self.has_bearer

    def check(self) -> None:
        """It names an instance."""
        if not all(self.at):
            raise NotFoundError(
                f"there is nothing at {self.request.url.path}",
                hint="a compute instance is at /instances/WORKSPACE/NAME/",
            )

    def check_origin(self) -> None:
        """No page of others has something changed here, nor listens in, through this browser."""
        origin = self.request.headers.get("origin")
        if origin is None:
            return
        if self.request.method in _SAFE and not is_websocket(self.request.scope):
            return
        if urlsplit(origin).netloc.lower() != self.host.lower():
            raise ForbiddenError(
                f"a page of {origin} may not reach compute instance {self.name!r}",
                hint="a proxy before this server must pass on the Host that it was asked for",
            )

    def without_token(self) -> Response | None:
        """The same address without a token in it, which would end up in logs and histories."""
        query = parse_qsl(self.request.scope["query_string"].decode("latin-1"), True)
        rest = [each for each in query if each[0] != "token"]
        if len(rest) == len(query) or not wants_page(self.request):
            return None
        return _to(_target(self.request.scope, urlencode(rest)))

    def unknown(self, *, had_cookie: bool) -> AuthenticationException:
        hint = f"open it with: wherry compute open {self.name}"
        if "token" in self.request.query_params:
            return AuthenticationException(
                "a token in the address is not looked at: it would end up in logs and histories",
                hint=f"send it as 'Authorization: Bearer TOKEN'; for a browser, {hint}",
            )
        if self.code:
            problem = "this code is not good any more: each is good once, for a minute"
        elif had_cookie:
            problem = f"this browser is not let in to compute instance {self.name!r} any more"
        else:
            problem = f"this browser was not let in to compute instance {self.name!r} yet"
        return AuthenticationException(problem, hint=hint)

    def unavailable(self, what: str) -> TargetUnavailableError:
        return TargetUnavailableError(
            f"the JupyterLab of compute instance {self.name!r} {what}",
            hint=f"if it stays so: wherry compute restart {self.name}",
        )


def _path(scope: Scope) -> bytes:
    """As it was sent."""
    return scope.get("raw_path") or b""


def _target(scope: Scope, query: str) -> str:
    path = _path(scope).decode("ascii")
    return f"{path}?{query}" if query else path


def _to(address: str, headers: dict[str, str] | None = None) -> RedirectResponse:
    more = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", **(headers or {})}
    return RedirectResponse(address, status_code=303, headers=more)
