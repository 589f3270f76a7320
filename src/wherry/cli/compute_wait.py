"""Waiting for a compute target to be made, to have its nodes, or to be gone."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping

from ..core.errors import ComputeTargetException, NotFoundError
from . import instance_wait
from .compute_path import compute_path
from .going_on import going_on
from .progress import Progress
from .session import Session

_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 2.0


def ready(session: Session, record: Dict[str, Any]) -> Dict[str, Any]:
    """The record once it can be used and has the nodes that it always has."""
    name = str(record["name"])
    if record.get("kind") == "instance":
        return instance_wait.settled(session, record, "making")
    with going_on("making", name), Progress(session, f"making {name}") as progress:
        pause_s = _PAUSE_S
        while not _is_ready(record):
            progress.say(_doing(record))
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            record = session.client.get(compute_path(session, name))
    _check(record)
    if lacks_nodes(record):
        session.say(f"{name} waits: {record['problem']}")
    return record


def lacks_nodes(record: Mapping[str, Any]) -> bool:
    """Whether it has fewer than it always should have."""
    return _usable(record) < _least(record)


def gone(session: Session, name: str) -> None:
    """Once its runs have ended and its nodes are away."""
    with going_on("deleting", name), Progress(session, f"deleting {name}") as progress:
        pause_s, told = _PAUSE_S, ""
        while True:
            try:
                record = session.client.get(compute_path(session, name))
            except NotFoundError:
                return
            if record.get("problem") and not told:
                told = _what_helps(record)
                session.say(told)
            number = len(record.get("nodes") or [])
            left = f": {number} node{'' if number == 1 else 's'} left" if number else ""
            progress.say(f"deleting {name}{left}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _what_helps(record: Mapping[str, Any]) -> str:
    """A machine that does not answer is waited for; only people know whether it ever will."""
    one = record.get("kind") == "machine"
    command = f"detach {record['name']} --force" if one else f"give-up {record['name']} NODE"
    return f"{record['problem']}; if the machine is gone for good: wherry compute {command}"


def _is_ready(record: Mapping[str, Any]) -> bool:
    if record.get("provisioning_state") not in ("Succeeded", None):
        return record["provisioning_state"] in ("Failed", "Canceled")
    status = record.get("status")
    if not status or record.get("state") == "Stopped":
        return True
    return bool(status.get("errors")) or _usable(record) >= _least(record) or _is_stuck(record)


def _is_stuck(record: Mapping[str, Any]) -> bool:
    """Whether no more nodes come for now, for a reason that is known."""
    counts = (record.get("status") or {}).get("node_state_counts") or {}
    return bool(record.get("problem")) and not counts.get("preparing")


def _check(record: Mapping[str, Any]) -> None:
    if record.get("provisioning_state") in ("Failed", "Canceled"):
        raise _failed(record, _sentences(record.get("provisioning_errors")))
    errors = (record.get("status") or {}).get("errors")
    if errors and lacks_nodes(record):
        raise _failed(record, _sentences(errors))


def _failed(record: Mapping[str, Any], errors: str) -> ComputeTargetException:
    name, why = record["name"], errors or record.get("problem") or "no reason was given"
    hint = f"wherry compute show {name} says how it is now"
    if record.get("kind") == "machine":
        told = [error.get("hint") for error in record.get("provisioning_errors") or []]
        again = f"attach it again when that is mended, or forget it: wherry compute detach {name}"
        hint = "; ".join([*filter(None, told), again])
    return ComputeTargetException(f"compute target {name} cannot be used: {why}", hint=hint)


def _sentences(errors: Any) -> str:
    each = [error.get("message") if isinstance(error, dict) else error for error in errors or []]
    return "; ".join(map(str, each))


def _doing(record: Mapping[str, Any]) -> str:
    least = _least(record)
    if record.get("doing"):
        return f"making {record['name']}: {record['doing']}"
    if not least:
        return f"making {record['name']}"
    return f"making {record['name']}: {_usable(record)} of {least} nodes"


def _usable(record: Mapping[str, Any]) -> int:
    counts = (record.get("status") or {}).get("node_state_counts") or {}
    return int(counts.get("idle") or 0) + int(counts.get("running") or 0)


def _least(record: Mapping[str, Any]) -> int:
    scale = (record.get("status") or {}).get("scale_settings") or {}
    return int(scale.get("min_nodes") or 0)
