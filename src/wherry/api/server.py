"""The server about itself: health, numbers, targets, stopping."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from fastapi import Request
from fastapi.responses import PlainTextResponse

from wherry.control import targets
from wherry.core.records import iso
from wherry.core.version import API, VERSION
from wherry.store import runs

from .deps import PlaneDep
from .guard import guarded_router

router = guarded_router("server")
open_router = guarded_router("server", prefix="")


@router.get("/health")
@open_router.get("/health")
async def health() -> dict[str, Any]:
    """The only route without a token."""
    return {"status": "ok", "version": VERSION, "api": API}


@router.get("/server")
def show_server(plane: PlaneDep) -> dict[str, Any]:
    return {
        "version": VERSION,
        "api": API,
        "url": plane.url,
        "pid": os.getpid(),
        "home": plane.settings.home,
        "database": plane.database.name,
        "started_at": iso(plane.started_at),
    }


@router.get("/targets")
def list_targets(plane: PlaneDep) -> dict[str, Any]:
    return {"items": targets.every(plane)}


@router.get("/prometheus", response_class=PlainTextResponse)
@open_router.get("/metrics", response_class=PlainTextResponse)
def prometheus(plane: PlaneDep) -> str:
    """Counts and sizes in Prometheus' text form."""
    with plane.database.read() as connection:
        counts = runs.counts(connection)
    uptime = (plane.now() - plane.started_at).total_seconds()
    lines = [
        "# HELP wherry_info The running version.",
        "# TYPE wherry_info gauge",
        f'wherry_info{{version="{VERSION}"}} 1',
        "# HELP wherry_uptime_seconds Seconds since the server started.",
        "# TYPE wherry_uptime_seconds gauge",
        f"wherry_uptime_seconds {uptime:.3f}",
        "# HELP wherry_runs Runs by status.",
        "# TYPE wherry_runs gauge",
        *[f'wherry_runs{{status="{name}"}} {count}' for name, count in sorted(counts.items())],
        "# HELP wherry_threads Threads of the server.",
        "# TYPE wherry_threads gauge",
        f"wherry_threads {threading.active_count()}",
    ]
    return "\n".join(lines) + "\n"


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    """The description of this interface."""
    description: dict[str, Any] = request.app.openapi()
    return description


@router.post("/server/stop", status_code=202)
def stop_server() -> dict[str, str]:
    """Runs go on without the server; the next one adopts them."""
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return {"status": "stopping"}
