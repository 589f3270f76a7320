"""Runs attempts in a container that stands in for a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherry.core.errors import TargetUnavailableError
from wherry.core.lifecycle import Observation, Phase

from .agent_driver import AgentDriver
from .base import Handle, Launch
from .container_connection import GONE


class ContainerNode(AgentDriver):
    """Unlike a machine that cannot be reached, a container that has stopped or was removed has
    ended for sure, and nothing in it is to be cleared.
    """

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        try:
            return super().observe(handles)
        except TargetUnavailableError as error:
            _must_be_gone(error)
            seen = Observation(Phase.GONE, detail=error.message)
            return dict.fromkeys(handles, seen)

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


def _must_be_gone(error: TargetUnavailableError) -> None:
    if error.fields.get("cause") != GONE:
        raise error
