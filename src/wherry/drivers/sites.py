"""The site protocol: where a cluster's nodes come from, and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from wherry.core.resources import Resources
from wherry.core.vm_sizes import Size

from .base import Driver

# More than any machine has.
ANYTHING = Resources(10.0**6, 2**62, 10**6)


@dataclass(frozen=True)
class Machine:
    """A node as its site made it. ``config`` is all that its driver needs to know of it again."""

    name: str
    resources: Resources
    gpus: Sequence[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


class Site(Protocol):
    """Stateless, like a driver: what was made is there for any other instance.

    Every method raises ``TargetUnavailableError`` with a sentence when it cannot be done now.
    """

    def sizes(self) -> Sequence[Size]:
        """The kinds of node that can be had here."""
        ...

    def room(self, size: Size) -> int:
        """How many more nodes of that size could be made."""
        ...

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        """How many nodes of that size fewer can be made once the promised ones are."""
        ...

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        """The machine of that id, made unless it is there already.

        With a ``home``, it has the folder of that name, which outlives it: ``home`` of its
        configuration says where.
        """
        ...

    def forget(self, home: str) -> None:
        """Remove that folder and all that lies in it. Unknown, repeated: no effect."""
        ...

    def remove(self, node_id: str) -> None:
        """With all that runs and lies on it. Unknown, repeated: no effect."""
        ...

    def machines(self) -> Mapping[str, Machine]:
        """Those that are there, by the id of their node."""
        ...

    def driver(self, node_id: str, machine: Machine) -> Driver:
        """Starts attempts on the machine."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A site that keeps something for all its nodes."""

    def dismantle(self) -> None:
        """Remove that: the site is none any more."""
        ...


@runtime_checkable
class Vague(Protocol):
    """A site whose nodes may have more than their size says."""

    def at_most(self, size: Size) -> Resources:
        """What a node of that size could have, as far as is known."""
        ...
