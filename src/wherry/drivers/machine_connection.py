"""The way to a container that is reached by SSH, and what its engine says where there is none."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from wherry.containers.engine import Engine
from wherry.containers.error import ContainerError, EngineError
from wherry.core.errors import TargetUnavailableError

from . import ssh_connection
from .container_ports import published
from .ssh_host import Host

STOPPED = "stopped"
_NOT_THERE = 404


@dataclass(frozen=True)
class MachinePlace:
    """``engine`` is written as in ``DOCKER_HOST``, ``name`` the container's."""

    host: Host
    engine: str
    name: str

    @property
    def python(self) -> str:
        return self.host.python

    @property
    def where(self) -> tuple[str, int]:
        return self.host.where

    @property
    def trial(self) -> str:
        return self.host.trial

    def __str__(self) -> str:
        return f"machine {self.name}"


async def connect(place: MachinePlace) -> ssh_connection.Opened:
    """It starts nothing: the machine may be on its way out."""
    try:
        return await ssh_connection.connect(place.host)
    except TargetUnavailableError as error:
        reason = await asyncio.to_thread(_asleep, place)
        if not reason:
            raise
        raise TargetUnavailableError(
            f"{place} {reason}", hint="it is started again by itself", cause=STOPPED
        ) from error


def _asleep(place: MachinePlace) -> str:
    """Why it has to be started again; empty if that would not help, or nobody knows."""
    try:
        seen = Engine(place.engine).call("GET", f"/containers/{place.name}/json")
    except EngineError as error:
        return "was removed behind our back" if error.status == _NOT_THERE else ""
    except ContainerError:
        return ""
    if not seen["State"]["Running"]:
        return "has stopped"
    return "" if published(seen) == place.host.port else "was started again at another port"
