"""Who calls: the bearer token of a request, and whom it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from wherry.control import attempt_tokens, instance_tokens
from wherry.control.plane import Plane
from wherry.core.errors import AuthenticationException
from wherry.core.targets import workspace_of
from wherry.store import tokens


@dataclass(frozen=True)
class Caller:
    """An owner of the server, one attempt that speaks for its run, or a compute instance that
    does in its ``workspace`` what the owner does.
    """

    name: str
    run_id: str | None = None
    attempt_id: str | None = None
    workspace: str | None = None


NOBODY = Caller("")


async def authenticate(request: Request, plane: Plane) -> Caller:
    """Whoever the bearer token belongs to. The owner's is looked up in the database once."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise AuthenticationException(
            "this request carries no token",
            hint="send it as 'Authorization: Bearer TOKEN'; the token is in WHERRY_HOME/token",
        )
    if token.startswith(attempt_tokens.MARK):
        return await _attempt(plane, token)
    if token.startswith(instance_tokens.MARK):
        return await run_in_threadpool(_instance, plane, token)
    known: dict[str, str] = request.app.state.known_tokens
    name = known.get(token)
    if name is None:
        name = await run_in_threadpool(_holder, plane, token)
        if name is None:
            raise AuthenticationException(
                "the token is not valid", hint="the server's token is in WHERRY_HOME/token"
            )
        known[token] = name
    return Caller(name)


async def _attempt(plane: Plane, token: str) -> Caller:
    attempt_id, run_id = attempt_tokens.read(plane, token)
    if not attempt_tokens.known_good(plane, attempt_id):
        await run_in_threadpool(attempt_tokens.check, plane, attempt_id, run_id)
    return Caller(f"run:{run_id}", run_id, attempt_id)


def _instance(plane: Plane, token: str) -> Caller:
    row = instance_tokens.check(plane, token)
    return Caller(f"instance:{row.target}", workspace=workspace_of(row.target))


def _holder(plane: Plane, token: str) -> str | None:
    with plane.database.read() as connection:
        return tokens.holder(connection, token)
