"""What a browser is shown in place of a compute instance, and why."""

from __future__ import annotations

from html import escape

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from wherry.core.errors import AuthenticationException, WherryError
from wherry.core.instance_state import MOVING
from wherry.core.text import clean

from . import problems

_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_AGAIN_S = 2
_LONGEST = 1000
_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">{again}
  <title>{title} - Wherry</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="/view/view.css">
</head>
<body>
  <header><span class="brand">Wherry</span></header>
  <main>
    <h1>{title}</h1>
    <div class="card"><p>{sentence}</p>{remedy}</div>
  </main>
</body>
</html>
"""


def wants_page(request: Request) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def refusal(request: Request, error: Exception, name: str = "") -> Response:
    """A page for who looks, problem JSON for programs."""
    told = problems.answer(request, error)
    if not isinstance(error, WherryError) or not wants_page(request):
        return told
    headers = {
        "Content-Security-Policy": _POLICY,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }
    page = _page(error, name)
    return HTMLResponse(page, status_code=told.status_code, headers=headers)


def _page(error: WherryError, name: str) -> str:
    soon = error.fields.get("state") in MOVING or error.http_status == 503
    hint = error.hint or ""
    if isinstance(error, AuthenticationException) and name:
        hint = f"open it with: wherry compute open {name}"
    remedy = f'\n    <p class="soft">{_text(hint)}</p>' if hint else ""
    if soon:
        remedy += '\n    <p class="soft">This page looks again by itself.</p>'
    return _PAGE.format(
        again=f'\n  <meta http-equiv="refresh" content="{_AGAIN_S}">' if soon else "",
        title=_text(name or "Compute instances"),
        sentence=_text(error.message[:1].upper() + error.message[1:]) + ".",
        remedy=remedy,
    )


def _text(value: str) -> str:
    return escape(clean(value, _LONGEST))
