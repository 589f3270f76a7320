"""What a node lets a command use, where its folder says so: CPUs to stay on, a group to join.

The runner goes where the command shall be, starts it, and comes back: whatever the command starts
is born there. A container is its engine's to hold. Where the system has no group for a command, or
an engine cannot hold it, its memory is looked at now and then.
"""

from __future__ import annotations

import os
import time

from . import evidence
from .folder import tell
from .light import TYPE_CHECKING, loads, suppress

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .process import Command, Signals

_LIMITS = ".limits.json"
_LOOK_S = 0.5
_PAGE = 4096


class Confinement:
    """Nothing where there are no limits. ``cpus`` are those to stay on, ``cpu`` is how much of
    their time a container may have.
    """

    def __init__(self, limits: Dict[str, Any]) -> None:
        self.cpu = float(limits.get("cpu") or 0)
        self.cpus: List[int] = [int(each) for each in limits.get("cpus") or ()]
        self._groups: List[str] = [str(each) for each in limits.get("groups") or ()]
        self.memory_bytes = int(limits.get("memory_bytes") or 0)
        self._homes: Dict[str, str] = {}
        self._own_cpus: Optional[Any] = None
        self._looked_at = 0.0

    def __enter__(self) -> Confinement:
        if self.cpus and hasattr(os, "sched_setaffinity"):
            own = os.sched_getaffinity(0)
            with suppress(OSError):
                os.sched_setaffinity(0, self.cpus)
                self._own_cpus = own
        for group in list(self._groups):
            home = _home_of(group)
            if home and _join(group):
                self._homes[group] = home
            else:
                self._groups.remove(group)
        return self

    def __exit__(self, *_: object) -> None:
        for home in self._homes.values():
            _join(home)
        if self._own_cpus is not None:
            with suppress(OSError):
                os.sched_setaffinity(0, self._own_cpus)

    @property
    def kill_counters(self) -> List[str]:
        """The files in which the kernel counts those that it killed for want of memory."""
        names = ("memory.events", "memory.oom_control")
        found = [f"{group}/{name}" for group in self._groups for name in names]
        return [path for path in found if os.path.exists(path)]

    def watch(self, command: Command, signals: Signals) -> Callable[[], None]:
        """To be called now and then: ends a command that takes more than there is."""
        held = bool(self._groups) if command.held is None else command.held
        if not self.memory_bytes or held:
            return _nothing
        _tick(command, signals)

        def look() -> None:
            now = time.monotonic()
            if now - self._looked_at < _LOOK_S / 2:
                return
            self._looked_at = now
            if _resident(command.members()) > self.memory_bytes:
                command.out_of_memory = True
                command.kill()

        return look


def confinement(folder: str, own: Optional[Dict[str, Any]] = None) -> Confinement:
    """The attempt's own, or else that of the node on which its folder lies."""
    if own:
        return Confinement(own)
    try:
        with open(f"{os.path.dirname(folder)}/{_LIMITS}", encoding="utf-8") as file:
            limits = loads(file.read())
    except FileNotFoundError:
        return Confinement({})
    except (OSError, ValueError) as error:
        tell(f"the limits of this node cannot be read: {error}")
        return Confinement({})
    return Confinement(limits if isinstance(limits, dict) else {})


def _home_of(group: str) -> str:
    """The group of the same kind that this process is in."""
    for path in evidence.group_files(evidence.own_groups()):
        folder, _, name = path.rpartition("/")
        if os.path.exists(f"{group}/{name}"):
            return folder
    return ""


def _join(group: str) -> bool:
    try:
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    except OSError as error:
        tell(f"the control group {group} cannot be joined: {error}")
        return False
    return True


def _resident(pids: Any) -> int:
    """Memory that these processes hold; what they share counts for each."""
    pages = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/statm", "rb", 0) as file:
                fields = file.read().split()
            pages += int(fields[1]) - int(fields[2])
    return pages * _PAGE


def _tick(command: Command, signals: Signals) -> None:
    """Have those wake up who wait for the command, as often as it is to be looked at."""
    import threading

    def tick() -> None:
        while command.status is None:
            time.sleep(_LOOK_S)
            signals.wake()

    threading.Thread(target=tick, name="memory", daemon=True).start()


def _nothing() -> None:
    return None
