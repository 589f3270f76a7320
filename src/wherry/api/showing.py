"""A run as its caller may see it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from wherry.control import sealing
from wherry.control.plane import Plane
from wherry.core.records import Run
from wherry.core.sessions import SESSION

from .callers import Caller


def shown(request: Request, run: Run) -> dict[str, Any]:
    """With its environment variables' values for the owner and for itself, else their names.

    Those of an instance's session are its tokens, which nobody else has any use for.
    """
    fields = run.to_dict()
    if run.spec and sealing.SEALED in run.spec:
        plane: Plane = request.app.state.plane
        caller: Caller = request.scope["caller"]
        values = caller.run_id == run.id or (caller.run_id is None and run.type != SESSION)
        fields["spec"] = sealing.shown(plane.secret, run.id, run.spec, values=values)
    return fields
