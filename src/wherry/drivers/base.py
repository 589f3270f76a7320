"""The driver protocol: all that the control plane asks of a place where runs execute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NewType, Protocol, runtime_checkable

from wherry.core.errors import TargetUnavailableError
from wherry.core.lifecycle import Observation
from wherry.core.resources import Resources

Handle = NewType("Handle", str)
"""What a driver returned for an attempt: opaque JSON text, kept by the control plane."""


# The ``cause`` of an outage that will not pass: what was there has ended with its node.
NODE_GONE = "gone"


@dataclass(frozen=True)
class Launch:
    """Everything a driver needs to start one attempt; nothing about models or metrics.

    ``argv`` may contain ``{dir}``: the folder on the node where ``files`` and ``program`` were put.
    ``program`` is the same for every attempt, so a driver may keep it. ``nursery``, if any, is a
    command that starts attempts faster than ``argv`` does: see ``runner/nursery.py``. With
    ``--rescue`` behind it, ``argv`` brings home what a killed runner left. ``node`` is the one
    that was chosen for it, where the target has several.
    """

    attempt_id: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    files: Mapping[str, bytes] = field(default_factory=dict)
    program: Mapping[str, bytes] = field(default_factory=dict)
    nursery: Sequence[str] = ()
    time_limit_s: float | None = None
    node: str = ""


@dataclass(frozen=True)
class Node:
    """One machine of a target and what it owns."""

    name: str
    resources: Resources
    gpus: Sequence[str] = ()


@dataclass(frozen=True)
class Health:
    """What ``check`` found."""

    nodes: Sequence[Node]
    version: str = ""


class Driver(Protocol):
    """Stateless: any two instances with the same configuration are the same driver.

    Every method raises ``TargetUnavailableError`` when the backend cannot be reached, which says
    nothing about any attempt.
    """

    def check(self) -> Health:
        """Look, change nothing. Called on attach and every minute."""
        ...

    def render(self, launch: Launch) -> str:
        """The exact request that ``submit`` would make, as text for people. Pure."""
        ...

    def submit(self, launch: Launch) -> Handle:
        """Start the attempt, at most once for its ``attempt_id``.

        Called once, and again after a crash of the caller: the second call adopts what the first
        one started and returns the same handle, also when the attempt has ended since. Raises
        ``LaunchRefusedError`` when the backend said no; nothing is left behind then. An outage
        before anything was sent is raised as ``unsent``: the attempt may be started elsewhere. So
        it may where the error has ``refused`` (or, of a refusal, ``node``) among its fields: the
        node could not start it, and nothing is left of it there.
        """
        ...

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        """What the backend sees of each handle, in one batch.

        Never raises for one handle; an unknown handle is ``gone``. ``exited`` carries the exit
        record and comes only after the runner itself has left.
        """
        ...

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        """Ask the attempt to end; with ``force``, end every process of it now.

        Returns at once. Repeated, unknown, finished: no effect.
        """
        ...

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        """Bytes of the command's output from ``offset``; empty at the end or if unknown."""
        ...

    def release(self, handle: Handle) -> None:
        """Remove every trace. Afterwards ``observe`` says ``gone``. Repeated: no effect."""
        ...


def unsent(error: TargetUnavailableError) -> TargetUnavailableError:
    """The same, of a request that surely did not leave: nothing was done because of it."""
    return type(error)(error.message, hint=error.hint, **{**error.fields, "unsent": True})


@runtime_checkable
class Rescuer(Protocol):
    """A driver that can bring home what an attempt left whose runner is gone."""

    def rescue(self, launch: Launch) -> bool:
        """Start a runner that executes nothing and sends the rest; whether one is at work.

        False when there is nothing to bring home, or it was tried often enough. While it works,
        ``observe`` says ``running``; afterwards ``exited``.
        """
        ...


@runtime_checkable
class Reporting(Protocol):
    """A driver to which runners hand the whole story of a short run, past HTTP."""

    def inbox(self) -> int:
        """A descriptor that can be read when there is a report, as long as the driver lives."""
        ...

    def reports(self) -> Sequence[Mapping[str, Any]]:
        """Those that came since the last call. One that gets lost is found by ``observe``."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A driver that keeps something at hand between calls."""

    def close(self) -> None:
        """Let go of it; attempts go on."""
        ...


@runtime_checkable
class Tidying(Protocol):
    """A driver whose attempts may leave something that could not be removed with them."""

    def tidy(self) -> None:
        """Remove it now, if that can be. Called now and then, whether there are runs or not."""
        ...


@runtime_checkable
class Knowing(Protocol):
    """A driver that can tell what was surely never started, by whatever process."""

    def is_unknown(self, attempt_id: str) -> bool:
        """Whether no request for the attempt has ever come here, nor is on its way."""
        ...


@runtime_checkable
class Preflight(Protocol):
    """A driver that can say at submission that a run could never start there."""

    def refuse(self, resources: Resources, interpreter: str | None) -> str | None:
        """One sentence that says why not, or None."""
        ...


@dataclass(frozen=True)
class Reach:
    """What a runner is told: where the server is as seen from its machine, the file that says so
    when it changes, and the interpreter for the runner itself; ``here`` on this machine.
    """

    server: str
    server_file: str
    python: str
    here: bool = False


@runtime_checkable
class Remote(Protocol):
    """A driver whose nodes are other machines."""

    def reach(self, node: str = "") -> Reach | None:
        """For the named node, where there are several; None for one that is this machine."""
        ...


@runtime_checkable
class Dialing(Protocol):
    """A driver that leads to what programs on its nodes listen on."""

    def dial(self, path: str, node: str = "") -> str:
        """A unix socket of this machine that leads to the unix socket ``path`` of the node.

        There as long as the driver; whether somebody listens at the other end is seen by who
        connects: such a connection ends at once.
        """
        ...
