"""Finds the driver of a kind of target; nothing is imported before it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from wherry.core.errors import ComputeTargetException

GROUP = "wherry.drivers"

_BUILT_IN = {
    "local": "wherry.drivers.local:LocalDriver",
    "memory": "wherry.drivers.memory:MemoryDriver",
    "ssh": "wherry.drivers.ssh:SshDriver",
}
_PREFLIGHTS = {"ssh": "wherry.drivers.ssh_preflight:preflight"}
_SITES = {
    "container": "wherry.drivers.site_container:ContainerSite",
    "container machines": "wherry.drivers.site_machines:ContainerMachines",
}
_WAYS = {"ssh": "wherry.drivers.engine_ways:ways"}
_EXTRAS = {"local": "server"}


def kinds() -> list[str]:
    """Every kind of target that can be named here."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def load(kind: str) -> Any:
    """The driver class of a kind; its constructor takes what that kind needs."""
    place = _BUILT_IN.get(kind) or _plugged_in(kind)
    if place is None:
        raise ComputeTargetException(
            f"there is no driver for targets of kind {kind!r}",
            hint=f"the kinds here are {', '.join(kinds())}; others come with their own packages",
        )
    return _imported(kind, place)


def preflight(kind: str) -> Any:
    """The function that looks at a machine of that kind before anything runs there."""
    return _imported(kind, _PREFLIGHTS[kind])


def site(kind: str) -> Any:
    """The class of sites of that kind."""
    return _imported(kind, _SITES[kind])


def machine_keys() -> Any:
    """The class of the keys of a machine that this server makes."""
    return _imported("ssh", "wherry.drivers.machine_keys:MachineKeys")


def ways(kind: str) -> Any:
    """What leads to engines whose addresses are of that kind."""
    return _imported(kind, _WAYS[kind])


def _imported(kind: str, place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise ComputeTargetException(
            f"the driver for {kind!r} needs {error.name or error}, which is not installed",
            hint=f"pip install 'wherry[{_EXTRAS.get(kind, kind)}]'",
        ) from error


def _plugged_in(kind: str) -> str | None:
    found = entry_points(group=GROUP, name=kind)
    return next((point.value for point in found), None)
