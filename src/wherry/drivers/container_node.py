"""Runs attempts in a container that stands in for a machine."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from wherry.containers.engine import Engine
from wherry.containers.error import ContainerError, EngineError
from wherry.core.errors import TargetUnavailableError
from wherry.core.lifecycle import Observation, Phase

from .agent_driver import AgentDriver
from .base import NODE_GONE, Handle, Launch
from .container_place import ContainerPlace

log = logging.getLogger(__name__)

_STARTS = 3


class ContainerNode(AgentDriver):
    """Unlike a machine that cannot be reached, a container that has stopped or was removed has
    ended for sure, and nothing in it is to be cleared. What lies in one that has stopped is
    brought home: it is started again for that, a few times at most.
    """

    def __init__(self, place: ContainerPlace, *arguments: Any, **options: Any) -> None:
        super().__init__(place, *arguments, **options)
        self._engine, self._name = Engine(place.engine), place.name
        self._starts = 0

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        try:
            found = super().observe(handles)
        except TargetUnavailableError as error:
            _must_be_gone(error)
            again = bool(handles and error.fields.get("stopped")) and self._started_again()
            seen = Observation(Phase.UNKNOWN if again else Phase.GONE, detail=error.message)
            return dict.fromkeys(handles, seen)
        self._starts = 0
        return found

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        try:
            super().cancel(handle, force=force)
        except TargetUnavailableError as error:
            _must_be_gone(error)

    def release(self, handle: Handle) -> None:
        try:
            super().release(handle)
        except TargetUnavailableError as error:
            _must_be_gone(error)

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        try:
            return super().read_log(handle, offset, limit)
        except TargetUnavailableError as error:
            _must_be_gone(error)
            return b""

    def rescue(self, launch: Launch) -> bool:
        try:
            return super().rescue(launch)
        except TargetUnavailableError as error:
            _must_be_gone(error)
            return False

    def _started_again(self) -> bool:
        """Whether an agent can be had there soon: a later look will see what lies there."""
        path = f"/containers/{self._name}"
        try:
            if self._engine.call("GET", f"{path}/json")["State"]["Running"]:
                return True  # since a moment
            self._starts += 1
            if self._starts <= _STARTS:
                self._engine.call("POST", f"{path}/start")
        except ContainerError as error:
            raise TargetUnavailableError(str(error), cause="engine") from None
        except EngineError as error:
            log.warning("container %s is not started again: %s", self._name, error)
            return False
        return self._starts <= _STARTS


def _must_be_gone(error: TargetUnavailableError) -> None:
    if error.fields.get("cause") != NODE_GONE:
        raise error
