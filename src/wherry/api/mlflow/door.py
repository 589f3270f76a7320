"""Where requests of MLflow's clients come in: who calls, what, and errors in its words."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any
from urllib.parse import quote, unquote

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wherry.api import problems
from wherry.api.access import who_may
from wherry.api.again import carried_out
from wherry.api.guard import admit
from wherry.control.plane import Plane
from wherry.core.errors import UserErrorException
from wherry.core.version import VERSION

from . import (
    artifacts,
    experiments,
    histories,
    inputs,
    logged_models,
    logging,
    model_versions,
    registered_models,
    runs,
    server_info,
    unserved,
)
from .calls import Call, find

PREFIX = "/mlflow/"
# Whose calls are on the list.
SERVED = (
    artifacts,
    experiments,
    histories,
    inputs,
    logged_models,
    logging,
    model_versions,
    registered_models,
    runs,
    server_info,
)
_WHO = who_may("*", "/mlflow/{workspace}/{path}")
_CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    409: "RESOURCE_ALREADY_EXISTS",
    413: "INVALID_PARAMETER_VALUE",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
}


class MLflow:
    """Around the application: takes those requests, and passes the others on."""

    def __init__(self, app: ASGIApp, routes: FastAPI) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        scope["app"] = self._routes
        request = Request(scope, receive, send)
        try:
            response = await _answer(request)
        except Exception as error:  # noqa: BLE001  # answered with what there is to say of it
            response = _refusal(request, error)
        await response(scope, receive, send)


async def _answer(request: Request) -> Response:
    _, _, workspace, *rest = request.scope["path"].split("/")
    path = "/".join(rest)
    if path == "" and request.method in ("GET", "HEAD"):
        # What clients print; a browser keeps what is behind the '#'.
        return RedirectResponse(f"/view/?workspace={quote(workspace)}")
    if path == "health":
        return PlainTextResponse("OK")
    if path == "version":
        return PlainTextResponse(f"wherry-{VERSION}")
    _take_password(request)
    request.scope["path_params"] = {"workspace": unquote(workspace)}
    caller = request.scope["caller"] = await admit(request, _WHO)
    plane: Plane = request.app.state.plane
    name = unquote(workspace)
    if request.method == "GET":
        path = artifacts.as_place(path, request.query_params)
    if path.startswith(artifacts.PREFIX):
        bare = Call(plane, caller, name, {})
        await run_in_threadpool(lambda: bare.workspace)
        return await artifacts.answer(request, bare, path)
    return await carried_out(lambda again: _call(again, plane, name, path), request)


async def _call(request: Request, plane: Plane, workspace: str, path: str) -> Response:
    version, _, rest = path.partition("/mlflow/")
    found = find(request.method, rest)
    if found is None or version.removeprefix("ajax-") not in ("api/2.0", "api/3.0"):
        raise unserved.error(request.method, path)
    made, parts = found
    call = Call(plane, request.scope["caller"], workspace, await _given(request), parts)
    answer = await run_in_threadpool(made.carry_out, call)
    return Response(
        json.dumps(answer, separators=(",", ":")).encode(), media_type="application/json"
    )


async def _given(request: Request) -> dict[str, Any]:
    """A body where there is one; else the address, a name that comes several times as a list."""
    body = await request.body()
    if body:
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            raise UserErrorException("the request is not valid: its body is not JSON") from None
        if not isinstance(given, dict):
            raise UserErrorException("the request is not valid: its body is not an object")
        return given
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            several = found[name] if isinstance(found[name], list) else [found[name]]
            found[name] = [*several, value]
        else:
            found[name] = value
    return found


def _take_password(request: Request) -> None:
    """``MLFLOW_TRACKING_PASSWORD`` may be the token, too."""
    scheme, _, coded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return
    try:
        _, _, password = base64.b64decode(coded).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        password = ""
    others = [each for each in request.scope["headers"] if each[0] != b"authorization"]
    request.scope["headers"] = [*others, (b"authorization", f"Bearer {password}".encode())]
    del request._headers  # read again, with the token


def _refusal(request: Request, error: Exception) -> Response:
    """As MLflow's clients understand it."""
    ours = problems.answer(request, error)
    told = json.loads(bytes(ours.body))
    message = str(told.get("detail") or told.get("title") or "")
    if told.get("hint"):
        message += f" ({told['hint']})"
    code = getattr(error, "mlflow_code", None) or _CODES.get(ours.status_code, "INTERNAL_ERROR")
    status = 400 if ours.status_code in (409, 413) else ours.status_code
    return JSONResponse(
        {"error_code": code, "message": message},
        status_code=status,
        headers={"Retry-After": "1"} if status == 503 else None,
    )
