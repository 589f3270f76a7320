"""Waiting for a compute instance to run, or to be stopped."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping

from ..core.errors import ComputeTargetException
from .compute_path import compute_path
from .going_on import going_on
from .progress import Progress
from .session import Session

RUNNING = ("Running", "JobRunning")
STOPPED = ("Stopped",)
BROKEN = ("CreateFailed", "SetupFailed", "UserSetupFailed", "Unusable")
WITHOUT_MACHINE = ("CreateFailed", "Unusable")
_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 2.0
_WORDS = {
    "Creating": "its machine is being made",
    "Starting": "it is being started",
    "Restarting": "it is being started anew",
    "SettingUp": "JupyterLab is being set up",
    "UserSettingUp": "your script is running",
    "Stopping": "what runs on it is ending",
    "Unknown": "it does not answer",
}


def state_of(record: Mapping[str, Any]) -> str:
    return str((record.get("instance") or {}).get("state") or "Unknown")


def settled(session: Session, record: Dict[str, Any], doing: str) -> Dict[str, Any]:
    """The record once it runs or is stopped; errors where it cannot be used."""
    name = str(record["name"])
    with going_on(doing, name), Progress(session, f"{doing} {name}") as progress:
        pause_s, told = _PAUSE_S, ""
        while state_of(record) not in (*RUNNING, *STOPPED, *BROKEN):
            problem = str(record.get("problem") or "")
            if problem and problem != told:
                session.say(f"{name} waits: {problem}")
                told = problem
            state = state_of(record)
            progress.say(f"{doing} {name}: {_WORDS.get(state, state)}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            record = session.client.get(compute_path(session, name))
    _check(record)
    return record


def _check(record: Mapping[str, Any]) -> None:
    state, name = state_of(record), record["name"]
    if state not in BROKEN:
        return
    errors = [str(each.get("message") or each) for each in record["instance"].get("errors") or []]
    why = "; ".join(errors) or record.get("problem") or "no reason was given"
    hint = f"wherry compute logs {name} shows what it did"
    if state in WITHOUT_MACHINE:
        hint = f"when that is mended: wherry compute start {name}"
    if state == "UserSetupFailed":
        hint += f"; JupyterLab is there all the same: wherry compute open {name}"
    raise ComputeTargetException(f"compute instance {name} is {state}: {why}", hint=hint)
