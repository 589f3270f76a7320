"""Every error as problem JSON: a sentence, a code, never a trace."""

from __future__ import annotations

import logging
import sqlite3

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException

from wherry.core.errors import (
    NotFoundError,
    ServerUnavailableError,
    UserErrorException,
    WherryError,
)

log = logging.getLogger(__name__)


def respond(error: WherryError) -> JSONResponse:
    return JSONResponse(
        error.problem(), status_code=error.http_status, media_type="application/problem+json"
    )


def install(app: FastAPI) -> None:
    @app.exception_handler(WherryError)
    def _ours(_request: Request, error: WherryError) -> JSONResponse:
        return respond(error)

    @app.exception_handler(RequestValidationError)
    def _invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        where = f"{place}: " if place else ""
        return respond(UserErrorException(f"the request is not valid: {where}{first['msg']}"))

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, WherryError):  # met while the body was read
            return respond(error.__cause__)
        if error.status_code == 404:
            return respond(NotFoundError(f"there is nothing at {request.url.path}"))
        problem = UserErrorException(str(error.detail))
        problem.http_status = error.status_code
        return respond(problem)

    @app.exception_handler(OperationalError)
    def _database(_request: Request, error: OperationalError) -> JSONResponse:
        log.error("database: %s", error)
        full = isinstance(error.orig, sqlite3.OperationalError) and "full" in str(error.orig)
        hint = "free some disk space" if full else "look into the server's log: wherry server logs"
        return respond(ServerUnavailableError("the database did not answer", hint=hint))

    @app.exception_handler(Exception)
    def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return respond(
            WherryError(
                "the server met an unexpected problem",
                hint="the cause is in the server's log: wherry server logs",
            )
        )
