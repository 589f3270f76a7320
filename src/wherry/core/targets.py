"""What a compute target is called: by people, and by everything that keeps runs apart."""

from __future__ import annotations

LOCAL = "local"


def key(workspace: str, name: str) -> str:
    """``local`` is everyone's; any other target belongs to its workspace."""
    return name if name == LOCAL else f"{workspace}/{name}"


def name_of(key: str) -> str:
    """The name that people gave it."""
    return key.rpartition("/")[2]


def workspace_of(key: str) -> str:
    """The workspace that it belongs to, or nothing for ``local``."""
    return key.rpartition("/")[0]
