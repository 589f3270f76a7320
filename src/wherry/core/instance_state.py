"""The state of a compute instance, in Azure ML's words: a pure function of what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

from .lifecycle import Status

CREATING, CREATE_FAILED, DELETING = "Creating", "CreateFailed", "Deleting"
RUNNING, JOB_RUNNING, RESTARTING = "Running", "JobRunning", "Restarting"
SETTING_UP, SETUP_FAILED = "SettingUp", "SetupFailed"
STARTING, STOPPING, STOPPED = "Starting", "Stopping", "Stopped"
USER_SETTING_UP, USER_SETUP_FAILED = "UserSettingUp", "UserSetupFailed"
UNKNOWN, UNUSABLE = "Unknown", "Unusable"

USABLE = (RUNNING, JOB_RUNNING, USER_SETUP_FAILED)
"""JupyterLab can be opened."""
MOVING = (CREATING, DELETING, RESTARTING, SETTING_UP, STARTING, STOPPING, USER_SETTING_UP)
"""It will be another one by itself."""

READY = "Ready"
"""What a session says of itself once JupyterLab answers."""


@dataclass(frozen=True)
class Seen:
    """``node`` is the state of its node, empty without one; ``session`` the status of its session,
    empty without one, and ``phase`` what that says of itself. ``created`` says that it has been
    usable before, ``given_up`` that its sessions fail, and ``jobs`` how many runs it has.
    """

    node: str = ""
    session: str = ""
    phase: str = ""
    stopped: bool = False
    deleting: bool = False
    created: bool = False
    restarting: bool = False
    given_up: bool = False
    jobs: int = 0


def state_of(seen: Seen) -> str:
    if seen.deleting:
        return DELETING
    if seen.stopped:
        return STOPPING if seen.node or _lives(seen) else STOPPED
    if seen.restarting:
        return RESTARTING
    if seen.node == "unusable":
        return UNUSABLE if seen.created else CREATE_FAILED
    if seen.session == Status.NOT_RESPONDING.value:
        return UNKNOWN
    if seen.session == Status.RUNNING.value:
        return _by_phase(seen)
    if seen.given_up:
        return SETUP_FAILED
    if seen.created:
        return STARTING
    return SETTING_UP if seen.node in ("idle", "running") else CREATING


def _by_phase(seen: Seen) -> str:
    if seen.phase == READY:
        return JOB_RUNNING if seen.jobs else RUNNING
    if seen.phase in (USER_SETTING_UP, USER_SETUP_FAILED):
        return seen.phase
    return STARTING if seen.created else SETTING_UP


def _lives(seen: Seen) -> bool:
    return bool(seen.session) and not Status(seen.session).terminal
