"""The page that shows runs in a browser: static files over the REST API."""

from __future__ import annotations

from pathlib import Path

from fastapi.responses import RedirectResponse, Response

from wherry.core.errors import NotFoundError

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
async def index() -> Response:
    return _send("index.html")


@router.get("/view/{name}")
async def file(name: str) -> Response:
    return _send(name)


def _send(name: str) -> Response:
    if name not in _FILES:
        raise NotFoundError(f"there is nothing at /view/{name}")
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    return Response((_FOLDER / name).read_bytes(), media_type=_FILES[name], headers=headers)
