"""Who starts on a target: what machines, whose room runs share, and clusters have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection

from wherry.core.placement import Placement
from wherry.drivers.base import Health


class Admitted(NamedTuple):
    """A run that was given an attempt, and the room for it."""

    run: Any
    attempt_id: str
    place: Placement


class Chosen(NamedTuple):
    """Those that start once this is on disk, and those that are to stand by."""

    starting: list[Admitted]
    following: Sequence[Admitted] = ()


class Admission(Protocol):
    """``held_back`` says that the queue has more than there is room for."""

    held_back: bool

    def admit(self, connection: Connection, health: Health, *, burst: bool) -> Chosen:
        """The next of the queue. In a ``burst`` short runs are handed over one after another."""
        ...
