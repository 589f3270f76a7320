"""At which port of the engine's host a container's sshd is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INSIDE = 2222
PORT = "wherry.port"  # a label, where the container shares its host's network


def published(seen: Mapping[str, Any]) -> int:
    """0 where there is none."""
    told = str((seen["Config"].get("Labels") or {}).get(PORT) or "")
    if told:
        return int(told)
    ports = (seen.get("NetworkSettings") or {}).get("Ports") or {}
    for each in ports.get(f"{INSIDE}/tcp") or []:
        if each.get("HostPort"):
            return int(each["HostPort"])
    return 0


def is_taken(message: str) -> bool:
    """Whether an engine, or an sshd, says that somebody else has the port."""
    told = message.lower()
    words = ("address already in use", "port is already allocated", "cannot bind any address")
    return any(each in told for each in words)
