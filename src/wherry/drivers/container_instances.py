"""Runs attempts on this machine whose commands are in containers, as long as an engine answers."""

from __future__ import annotations

import os

from wherry.containers.contexts import chosen
from wherry.containers.engine import find, sockets
from wherry.containers.error import ContainerError, EngineError
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources

from .base import Handle, Health, Launch, unsent
from .local import LocalDriver

_ANSWER_S = 10.0
_WHO = "a container instance"


class ContainerInstances(LocalDriver):
    """Nothing is started, and whoever waits goes on waiting, while there is no engine."""

    def check(self) -> Health:
        health = super().check()
        _ask()
        return health

    def refuse(self, resources: Resources, interpreter: str | None) -> str | None:
        return super().refuse(resources, None) or _absent()

    def submit(self, launch: Launch) -> Handle:
        if not self.knows(launch.attempt_id):
            try:
                _ask()
            except TargetUnavailableError as error:
                raise unsent(error) from None
        return super().submit(launch)


def makes_instances(address: str) -> bool:
    """Whether that is the engine of this machine, as it is without any address or context."""
    try:
        address = address or chosen(os.environ, over_ssh=True)
        return not address or _path(address) == _path(find(os.environ, _WHO).address)
    except ContainerError:
        return False


def _path(address: str) -> str:
    scheme, _, path = address.partition("://")
    return os.path.realpath(path) if scheme == "unix" else address


def _absent() -> str | None:
    """That there is no engine, of which none waits for anything; one that has stopped is one."""
    try:
        find(os.environ, _WHO)
    except ContainerError as error:
        if not any(map(os.path.exists, sockets(os.environ))):
            return str(error)
    return None


def _ask() -> None:
    """Whether the engine answers, and does so in time."""
    try:
        find(os.environ, _WHO).call("GET", "/_ping", raw=True, within_s=_ANSWER_S)
    except (ContainerError, EngineError) as error:
        raise TargetUnavailableError(str(error), cause="engine") from None
