"""The way from this server to the JupyterLab of a compute instance."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Row

from wherry.core.compute_configs import INSTANCE
from wherry.core.errors import ConflictError, TargetUnavailableError
from wherry.core.instance_state import MOVING, STOPPED, USABLE
from wherry.drivers.base import Dialing
from wherry.store import attempts, instances, workspaces

from . import instance_records, session_facts
from .computes import get
from .plane import Plane


class Door(NamedTuple):
    """A unix socket of this machine, the path that all requests begin with, and what opens it."""

    socket: str
    base_url: str
    token: str


def door(plane: Plane, workspace_name: str, name: str) -> Door:
    with plane.database.read() as connection:
        row = get(connection, workspaces.get(connection, workspace_name), name)
        if row.kind != INSTANCE:
            raise ConflictError(
                f"compute target {name!r} is no compute instance: there is no JupyterLab on it",
                hint="create one with: wherry compute create --type ComputeInstance",
            )
        instance = instances.find(connection, row.target)
        seen = instance_records.seen(connection, row)
        run, said = session_facts.last(connection, instance) if instance is not None else (None, {})
        tries = attempts.of_run(connection, run.id) if run is not None else []
    socket = said.get("session.socket")
    if instance is None or seen not in USABLE or not socket or not tries:
        raise _closed(name, seen)
    token = session_facts.jupyter_token(plane, row, instance.sessions)
    return Door(_dialled(plane, row, socket, tries[-1].node_id), session_facts.base_url(row), token)


def _dialled(plane: Plane, row: Row[Any], socket: str, node: str) -> str:
    driver: object = plane.drivers.get(row.target)
    if not isinstance(driver, Dialing):
        raise TargetUnavailableError(f"compute instance {row.name!r} cannot be reached yet")
    return driver.dial(socket, node)


def _closed(name: str, state: str) -> ConflictError:
    hint = f"wherry compute show {name} says what is wrong"
    if state == STOPPED:
        hint = f"wherry compute start {name}"
    elif state in MOVING or state in USABLE:
        hint = "try again in a moment"
    return ConflictError(f"compute instance {name!r} is {state}", hint=hint, state=state)
