"""Compute targets by name: inside a workspace for people, by a key of their own for the rest."""

from __future__ import annotations

import re
from typing import Tuple
from urllib.parse import quote

from .errors import UserErrorException

LOCAL = "local"
CONTAINER_INSTANCE = "containerinstance"
# Both are this machine, whose room they share: runs as they are, and each run in a container.
BUILT_IN = (LOCAL, CONTAINER_INSTANCE)
RESERVED = (LOCAL, CONTAINER_INSTANCE, "amlcompute")
LONGEST_KEY = 240
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,30}[A-Za-z0-9]\Z")


def key(workspace: str, name: str) -> str:
    """What runs, attempts and nodes call a target. This machine is one for all workspaces."""
    return name if name in BUILT_IN else f"{workspace}/{name}"


def sharing(key: str) -> Tuple[str, ...]:
    """The targets that are the same machine as this one, which is among them."""
    return BUILT_IN if key in BUILT_IN else (key,)


def name_of(key: str) -> str:
    """What people call it."""
    return key.rpartition("/")[2]


def workspace_of(key: str) -> str:
    return key.rpartition("/")[0]


def instance_path(key: str) -> str:
    """Where a compute instance is under the address of its server."""
    workspace, name = (quote(each, safe="") for each in (workspace_of(key), name_of(key)))
    return f"/instances/{workspace}/{name}/"


def check_compute_name(workspace: str, name: object) -> str:
    """The name, or an error that says what a compute target may be called."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise UserErrorException(
            f"{name!r} is not a valid compute target name",
            hint="use 2 to 32 letters, digits and '-', beginning with a letter, not ending in '-'",
        )
    if name.lower() in RESERVED:
        raise UserErrorException(
            f"the compute target name {name!r} is reserved",
            hint=f"choose another than {', '.join(RESERVED)}",
        )
    if len(key(workspace, name)) > LONGEST_KEY:
        raise UserErrorException(
            f"the names of workspace {workspace!r} and compute target {name!r} are too long "
            "together",
            hint=f"both may have {LONGEST_KEY} characters in all",
        )
    return name
