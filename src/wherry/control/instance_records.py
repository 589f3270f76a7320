"""Compute instances as they are shown: their state, their last operation, what comes next."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.instance_state import SETUP_FAILED, USABLE, USER_SETUP_FAILED, Seen, state_of
from wherry.core.lifecycle import Status
from wherry.core.records import iso
from wherry.core.schedules import following
from wherry.core.session_tries import TRIES, again_at
from wherry.core.sessions import SESSION
from wherry.core.text import harmless
from wherry.store import computes, instances, nodes

from . import instance_kernels, session_facts
from .plane import Plane


def record(plane: Plane, connection: Connection, row: Row[Any]) -> dict[str, Any]:
    instance = instances.find(connection, row.target)
    state = seen(connection, row)
    url = session_facts.base_url(row) if state in USABLE else ""
    services = [{"display_name": "JupyterLab", "endpoint_uri": f"{url}lab"}] if url else []
    return {
        "state": state,
        "session_run_id": instance.session_id if instance is not None else None,
        "url": url,
        "services": services,
        "last_operation": _operation(instance) if instance is not None else None,
        "idle_since": iso(instance.active_at) if instance is not None and url else None,
        "idle_stop_at": _idle_stop_at(row, instance) if url else None,
        "next_schedule": _next_schedule(plane, row),
        "errors": _errors(plane, connection, row, instance),
        "ssh": None,
    }


def seen(connection: Connection, row: Row[Any]) -> str:
    """Its state."""
    instance = instances.find(connection, row.target)
    present = nodes.present(connection, row.target)
    run, said = session_facts.last(connection, instance) if instance is not None else (None, {})
    active = computes.active_runs(connection, row.target, 100)
    jobs = [each for each in active if each.type != SESSION]
    return state_of(
        Seen(
            node=present[-1].state if present else "",
            session=run.status if run is not None else "",
            phase=said.get("session.phase", ""),
            stopped=row.stopped_at is not None,
            deleting=row.deleting_at is not None,
            created=instance is not None and instance.created,
            restarting=instance is not None and instance.restarting,
            given_up=instance is not None and instance.failures >= TRIES,
            jobs=sum(each.status != Status.QUEUED.value for each in jobs),
        )
    )


def _idle_stop_at(row: Row[Any], instance: Row[Any] | None) -> str | None:
    idle = row.config["idle_seconds"]
    if instance is None or idle is None:
        return None
    return iso(instance.active_at + timedelta(seconds=idle))


def _next_schedule(plane: Plane, row: Row[Any]) -> dict[str, Any] | None:
    now = plane.now()
    due = [(following(each, now), each["action"]) for each in row.config["schedules"]]
    coming = sorted((at, action) for at, action in due if at is not None)
    return {"action": coming[0][1], "at": iso(coming[0][0])} if coming else None


def _errors(
    plane: Plane, connection: Connection, row: Row[Any], instance: Row[Any] | None
) -> list[dict[str, str]]:
    if instance is None or row.deleting_at is not None:
        return []
    run, said = session_facts.last(connection, instance)
    _, missing = instance_kernels.kernels(plane, connection, row)
    found = [{"code": "EnvironmentNotFound", "message": each} for each in missing]
    if said.get("session.error"):
        code = "UserSetupFailed" if said.get("session.phase") == USER_SETUP_FAILED else SETUP_FAILED
        found.append({"code": code, "message": harmless(said["session.error"])})
    elif run is not None and run.status == Status.FAILED.value and instance.failures:
        found.append({"code": SETUP_FAILED, "message": str(run.message)})
    return found


def doing(plane: Plane, connection: Connection, row: Row[Any]) -> str | None:
    """What it waits for, where its session has failed and another one follows."""
    instance = instances.find(connection, row.target)
    if instance is None or not instance.failures or row.stopped_at is not None:
        return None
    run, _ = session_facts.last(connection, instance)
    if run is None or run.status != Status.FAILED.value or run.ended_at is None:
        return None
    due = again_at(instance.failures, run.ended_at)
    if due is None:
        return None
    left = max(0, math.ceil((due - plane.now()).total_seconds()))
    tries = f"try {instance.failures + 1} of {TRIES}"
    return f"JupyterLab has failed and is started again in {left} s ({tries})"


def _operation(instance: Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in instance.operation.items() if name != "failed"}
