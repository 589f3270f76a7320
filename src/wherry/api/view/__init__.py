"""The page that shows runs in a browser: static files over the REST API."""

from __future__ import annotations

from pathlib import Path

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from wherry.core.errors import NotFoundError, WrongHostError

from ..forwarding import scheme_of
from ..guard import guarded_router

router = guarded_router("view", prefix="", include_in_schema=False)

_FOLDER = Path(__file__).parent
_FILES = {
    "index.html": "text/html; charset=utf-8",
    "view.css": "text/css; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/")
async def root() -> RedirectResponse:
    return RedirectResponse("/view/")


@router.get("/view/")
async def index(request: Request) -> Response:
    """Never under the name that notebooks have."""
    names, host = request.app.state.names, request.headers.get("host", "")
    if names.is_for_instances_alone(host):
        raise WrongHostError(f"{host} is for notebooks alone: the page has another name")
    elsewhere = names.for_view(host)
    if elsewhere is not None:
        return RedirectResponse(f"{scheme_of(request.scope)}://{elsewhere}/view/")
    return _send("index.html")


@router.get("/view/{name}")
async def file(name: str, request: Request) -> Response:
    return await index(request) if name == "index.html" else _send(name)


def _send(name: str) -> Response:
    if name not in _FILES:
        raise NotFoundError(f"there is nothing at /view/{name}")
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    headers["Referrer-Policy"] = "no-referrer"
    return Response((_FOLDER / name).read_bytes(), media_type=_FILES[name], headers=headers)
