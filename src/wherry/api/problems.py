"""Every error as problem JSON: a sentence, a code, never a trace."""

from __future__ import annotations

import errno
import logging

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from wherry.core.errors import (
    NotFoundError,
    ServerUnavailableError,
    UserErrorException,
    WherryError,
)
from wherry.core.text import clean

log = logging.getLogger(__name__)
_MAX_SENTENCE = 5000
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


def respond(error: WherryError) -> JSONResponse:
    problem = error.problem()
    for name in ("detail", "hint"):
        if name in problem:  # it may repeat what was sent
            problem[name] = clean(str(problem[name]), _MAX_SENTENCE)
    return JSONResponse(
        problem,
        status_code=error.http_status,
        media_type="application/problem+json",
        headers={"Retry-After": "1"} if error.http_status == 503 else None,
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

    @app.exception_handler(SQLAlchemyError)
    def _database(_request: Request, error: SQLAlchemyError) -> JSONResponse:
        cause = error.orig if isinstance(error, DBAPIError) else error
        log.error("database: %s", cause)  # not the statement: it carries what users sent
        return respond(_database_problem(error))

    @app.exception_handler(OSError)
    def _system(request: Request, error: OSError) -> JSONResponse:
        if error.errno in _DISK_FULL:
            log.error("%s %s: the disk is full", request.method, request.url.path)
            return respond(
                ServerUnavailableError("the server's disk is full", hint="free some disk space")
            )
        return _unexpected(request, error)

    @app.exception_handler(ClientDisconnect)
    def _gone(_request: Request, _error: ClientDisconnect) -> JSONResponse:
        return respond(UserErrorException("the request ended before its body did"))

    @app.exception_handler(Exception)
    def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return respond(
            WherryError(
                "the server met an unexpected problem",
                hint="the cause is in the server's log: wherry server logs",
            )
        )


def answer(request: Request, error: Exception) -> Response:
    """What the handlers above say of it, for those who meet it outside of the routes."""
    handlers = request.app.exception_handlers
    kind = next(each for each in type(error).__mro__ if each in handlers)
    response: Response = handlers[kind](request, error)
    return response


def _database_problem(error: SQLAlchemyError) -> WherryError:
    if isinstance(error, DataError):
        return UserErrorException("the request contains a value that cannot be stored")
    if isinstance(error, IntegrityError):
        return ServerUnavailableError("another request changed the same thing: send it again")
    full = isinstance(error, DBAPIError) and "disk is full" in str(error.orig)
    hint = "free some disk space" if full else "look into the server's log: wherry server logs"
    return ServerUnavailableError("the database did not answer", hint=hint)
