"""What is known of the session of a compute instance."""

from __future__ import annotations

import hmac
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.lifecycle import Status
from wherry.core.targets import instance_path
from wherry.store import run_labels, runs

from .plane import Plane


def base_url(row: Row[Any]) -> str:
    """The path under which the server leads to it."""
    return instance_path(row.target)


def jupyter_token(plane: Plane, row: Row[Any], session: int) -> str:
    """What opens the JupyterLab of one session: made from the server's key, never stored."""
    said = f"jupyter {row.id} {session}"
    return hmac.digest(plane.secret, said.encode(), "sha256").hex()


def live(connection: Connection, instance: Row[Any]) -> Any:
    """The run of its session, unless that has ended."""
    run = runs.find(connection, instance.session_id) if instance.session_id else None
    return None if run is None or Status(run.status).terminal else run


def last(connection: Connection, instance: Row[Any]) -> tuple[Any, dict[str, str]]:
    """The run of its latest session, and what that has said of itself."""
    run = runs.find(connection, instance.session_id) if instance.session_id else None
    if run is None:
        return None, {}
    labels = run_labels.of(connection, [run.seq])
    said = {**labels.get((run.seq, run_labels.PROPERTY), {})}
    return run, {**said, **labels.get((run.seq, run_labels.TAG), {})}
