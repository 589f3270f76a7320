"""The assembled server: routes, errors, limits, and the reconcilers that live beside them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wherry.control.garbage import Collector
from wherry.control.plane import Plane
from wherry.control.targets import Targets
from wherry.core.errors import (
    UserErrorException,
    VersionMismatchError,
    WherryError,
    WrongHostError,
)
from wherry.core.version import API, VERSION

from . import (
    computes,
    description,
    environments,
    files,
    instances,
    limits,
    problems,
    runs,
    server,
    sites,
    snapshots,
    tracking,
    view,
    wheels,
    workspaces,
)
from .deps import too_large
from .held import Held, Share
from .hosts import Hosts
from .instances import Instances
from .lane import Lane
from .mlflow.door import MLflow
from .names import Names
from .stamp import stamp

_UPLOADS = 100
_STREAMED = ("/files/", "/blobs", "/logs/", "/spool/", "/mlflow-artifacts/")


def create_app(plane: Plane, *, reconcile: bool = True) -> FastAPI:
    """The application over a plane. It closes the plane when it stops."""
    workers: list[Targets | Collector] = [Targets(plane), Collector(plane)] if reconcile else []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for worker in workers:
            worker.start()
        yield
        app.state.stopping.set()
        for worker in workers:
            worker.stop()
        plane.close()

    app = FastAPI(
        title="Wherry",
        version=VERSION,
        openapi_url=None,  # served below, to those who have a token
        docs_url=None,
        redoc_url=None,
        strict_content_type=False,  # the runner sends no types; tokens, not cookies, say who calls
        lifespan=lifespan,
    )
    app.state.plane = plane
    app.state.known_tokens = {}
    app.state.names = Names(plane.settings.host, plane.settings.instances_host)
    app.state.held = Held(limits.MAX_HELD_BYTES)
    app.state.uploads = CapacityLimiter(_UPLOADS)
    app.state.stopping = threading.Event()
    problems.install(app)
    for module in (server, sites, workspaces, computes, environments, wheels, runs):
        app.include_router(module.router)
    for module in (files, instances, snapshots, tracking):
        app.include_router(module.router)
    app.include_router(server.open_router)
    app.include_router(view.router)
    description.install(app)
    app.add_middleware(Lane, routes=app)
    app.add_middleware(MLflow, routes=app)
    app.add_middleware(Instances, routes=app, names=app.state.names)
    app.add_middleware(
        Edge,
        hosts=Hosts(plane.settings.host, _names(plane)),
        max_body_bytes=plane.settings.max_body_bytes,
        server_id=plane.server_id,
        held=app.state.held,
    )
    return app


class Edge:
    """Around every request: its host, versions, and the size of bodies that are read whole."""

    def __init__(
        self, app: ASGIApp, hosts: Hosts, max_body_bytes: int, server_id: str, held: Held
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._max_body_bytes = max_body_bytes
        self._held = held
        self._stamp = stamp(server_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = self._stamped(send)
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"")
        if not self._hosts.allows(host):
            error: WherryError = _wrong_host(host.decode("latin-1"))
            await problems.respond(error)(scope, receive, send)
            return
        asked = headers.get(b"wherry-api", b"").decode("latin-1")
        if asked and asked != str(API):
            error = VersionMismatchError(
                f"this server is Wherry {VERSION} (interface {API}); "
                f"the client speaks interface {asked}",
                hint="use the same version of Wherry on both sides",
            )
            await problems.respond(error)(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            error = UserErrorException("the address contains a NUL")
            await problems.respond(error)(scope, receive, send)
            return
        if not _is_streamed(scope["path"]):
            length = headers.get(b"content-length", b"")
            if length.isdigit() and int(length) > self._max_body_bytes:
                await problems.respond(too_large(self._max_body_bytes))(scope, receive, send)
                return
            with self._held.share() as share:
                await self._app(scope, self._bounded(receive, share), send)
            return
        await self._app(scope, receive, send)

    def _bounded(self, receive: Receive, share: Share) -> Receive:
        async def bounded() -> Message:
            message = await receive()
            self._held.take(share, len(message.get("body", b"")))
            if share.taken > self._max_body_bytes:
                raise too_large(self._max_body_bytes)
            return message

        return bounded

    def _stamped(self, send: Send) -> Send:
        async def stamped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._stamp]
            await send(message)

        return stamped


def _names(plane: Plane) -> str:
    """Those that the server has beside the address it listens on."""
    for_instances = plane.settings.instances_host.partition(":")[0]
    return f"{plane.settings.allowed_hosts},{for_instances}"


def _is_streamed(path: str) -> bool:
    return path.startswith("/instances/") or any(part in path for part in _STREAMED)


def _wrong_host(host: str) -> WrongHostError:
    return WrongHostError(
        f"this server does not answer under the name {host!r}",
        hint="if the name is yours, set WHERRY_ALLOWED_HOSTS where the server runs",
    )
