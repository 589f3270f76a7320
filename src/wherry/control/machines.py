"""Machines that are attached: looked at once, then driven over SSH."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from wherry.core.errors import TargetUnavailableError, WherryError
from wherry.drivers import registry
from wherry.drivers.base import Driver
from wherry.drivers.ssh_host import Host
from wherry.store import computes

from .compute_secrets import opened
from .plane import Plane

log = logging.getLogger(__name__)

CREATING, SUCCEEDED, FAILED = "Creating", "Succeeded", "Failed"


def node_root(plane: Plane) -> str:
    """This server's own folder on other machines: several servers may use the same one."""
    return f"~/.wherry-node/{plane.server_id}"


def driver(plane: Plane, row: Row[Any]) -> Driver:
    host = Host.of(row.config, opened(plane, row))
    made: Driver = registry.load("ssh")(host, node_root(plane), plane.url)
    return made


def look_at(plane: Plane, row: Row[Any]) -> Any:
    """What there is, or ``TargetUnavailableError`` that says precisely what is wrong."""
    host = Host.of(row.config, opened(plane, row))
    return registry.preflight("ssh")(host, node_root(plane), plane.url)


def attach(plane: Plane, row: Row[Any]) -> None:
    """Note what was found: the keys that it must show from now on, or what is wrong."""
    try:
        found = look_at(plane, row)
    except WherryError as error:
        log.warning("compute target %s cannot be attached: %s", row.target, error.message)
        trouble = {"code": str(error.fields.get("cause") or error.code), "message": error.message}
        if error.hint:
            trouble["hint"] = error.hint
        changes: dict[str, Any] = {"provisioning_state": FAILED, "provisioning_errors": [trouble]}
        plane.problems[row.target] = error.message
    else:
        keys = {"host_key": found.host_key, "jump_host_keys": list(found.jump_host_keys)}
        config = {**row.config, **keys}
        changes = {"provisioning_state": SUCCEEDED, "provisioning_errors": [], "config": config}
        plane.problems.pop(row.target, None)
    with plane.write() as connection:
        known = computes.find(connection, row.target, lock=True)
        if known is not None and known.modified_at == row.modified_at:
            computes.change(connection, row.target, changes)
    plane.computes_changed()


def check(plane: Plane, row: Row[Any]) -> dict[str, Any]:
    """A look at it now, as an answer."""
    try:
        found = look_at(plane, row)
    except TargetUnavailableError as error:
        trouble = {"problem": error.message, "hint": error.hint, "found": None}
        return {"ok": False, "cause": error.fields.get("cause"), **trouble}
    plane.hint(row.target)
    return {"ok": True, "problem": None, "hint": None, "cause": None, "found": asdict(found)}
