"""This machine as a site: its nodes are slots with their own share of CPUs, memory and GPUs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.core.vm_sizes import Size, catalogue

from . import groups, machine
from .base import Driver, Handle
from .homes import remove_home
from .local import LocalDriver
from .sites import Machine
from .warm import Warm

_SLOT = ".slot.json"
_LIMITS = ".limits.json"


class LocalSite:
    """``root`` holds a folder for each slot; ``total`` is what all of them may have together."""

    def __init__(self, root: Path | str, total: Resources, gpus: Sequence[str] = ()) -> None:
        self._root = Path(root).absolute()
        self._homes = self._root.parent / "homes"
        self._total = total
        self._gpus = list(gpus)
        self._drivers: dict[str, LocalDriver] = {}
        self._ours: set[str] = set()
        mark = hashlib.sha256(str(self._root).encode()).hexdigest()[:8]
        self._called = f"wherry-{mark}-"  # with a node's id, the name of its control group

    @cached_property
    def warm(self) -> Warm:
        """What all nodes share that this instance starts attempts on."""
        return Warm()

    def sizes(self) -> Sequence[Size]:
        return catalogue(self._total)

    def room(self, size: Size) -> int:
        with self._reaching():
            return size.times_in(self._free(self._slots()))

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        held = sum((each.resources for each in promised), Resources(0, 0, 0))
        return size.taken_by(held)

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        with self._reaching(), self._alone():
            slots = self._slots()
            if node_id not in slots:
                slots[node_id] = self._cut(node_id, size, slots, self._house(home))
            self._hold(node_id, slots[node_id])
            return _machine(node_id, slots[node_id])

    def forget(self, home: str) -> None:
        with self._reaching():
            remove_home(self._homes, home)

    def remove(self, node_id: str) -> None:
        folder = self._root / node_id
        self._drivers.pop(node_id, None)
        self._ours.discard(node_id)
        with self._reaching(), self._alone():
            if not folder.is_dir():
                return
            slot = _read(folder / _SLOT)
            driver = LocalDriver(folder)
            for each in [path for path in folder.iterdir() if path.is_dir()]:
                driver.release(Handle(json.dumps({"attempt": each.name})))
            groups.remove(slot.get("groups") or [])
            (folder / _SLOT).unlink(missing_ok=True)  # first: what is left is no slot any more
            shutil.rmtree(folder, ignore_errors=True)

    def machines(self) -> Mapping[str, Machine]:
        with self._reaching():
            return {node_id: _machine(node_id, slot) for node_id, slot in self._slots().items()}

    def driver(self, node_id: str, machine: Machine) -> Driver:
        if node_id not in self._drivers:
            with self._reaching(), self._alone():
                self._hold(node_id, _read(self._root / node_id / _SLOT))
            owned = machine.resources
            self._drivers[node_id] = LocalDriver(
                self._root / node_id,
                cpus=owned.cpu,
                memory_bytes=owned.memory_bytes,
                gpus=owned.gpu,
                warm=self.warm,
            )
        return self._drivers[node_id]

    def close(self) -> None:
        """Control groups of nodes where nothing runs go: who deletes the home would leave them."""
        self.warm.close()
        for node_id in self._ours:
            slot = _read(self._root / node_id / _SLOT)
            groups.remove_empty(slot.get("groups") or groups.places(self._called + node_id))

    def _house(self, home: str) -> str:
        if not home:
            return ""
        folder = self._homes / home
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder)

    def _cut(self, node_id: str, size: Size, slots: Mapping[str, Any], home: str) -> dict[str, Any]:
        free = self._free(slots)
        wanted = _held(size.cpu, size.memory_bytes, size.gpu, home)
        if not wanted.fits(free):
            raise TargetUnavailableError(
                f"this machine has no room for another node of size {size.name}: "
                f"it takes {size.resources}, {free} is free",
                hint="use fewer or smaller nodes",
            )
        folder = self._root / node_id
        folder.mkdir(mode=0o700, exist_ok=True)
        cpus = _least_used(size.cpu, slots)
        held = {gpu for slot in slots.values() for gpu in slot["gpus"]}
        for left in groups.named(
            self._called
        ):  # by one that was killed, or a home that was deleted
            if os.path.basename(left).removeprefix(self._called) not in slots:
                groups.remove([left])
        slot = {
            "cpu": size.cpu,
            "memory_bytes": size.memory_bytes,
            "gpus": [gpu for gpu in self._gpus if gpu not in held][: size.gpu],
            "cpus": cpus,
            "groups": groups.places(self._called + node_id),
            "home": home,
        }
        _write(folder / _SLOT, slot)
        return slot

    def _hold(self, node_id: str, slot: Mapping[str, Any]) -> None:
        """Have the limits of a slot there, and its control group, which goes with a reboot or when
        the server stops. The slot says where the group may be before there is one.
        """
        self._ours.add(node_id)
        known = _read(self._root / node_id / _LIMITS)
        if not slot or (known.get("groups") and all(map(os.path.isdir, known["groups"]))):
            return
        called = self._called + node_id
        also = [place for place in groups.places(called) if place not in slot["groups"]]
        if also:  # another server may be in another group
            _write(self._root / node_id / _SLOT, {**slot, "groups": [*slot["groups"], *also]})
        limits = {
            "cpus": slot["cpus"],
            "groups": groups.make(called, slot["memory_bytes"]),
            "memory_bytes": slot["memory_bytes"],
        }
        _write(self._root / node_id / _LIMITS, limits)

    def _slots(self) -> dict[str, dict[str, Any]]:
        if not self._root.is_dir():
            return {}
        found = {path.name: _read(path / _SLOT) for path in sorted(self._root.iterdir())}
        return {name: slot for name, slot in found.items() if slot}

    def _free(self, slots: Mapping[str, Mapping[str, Any]]) -> Resources:
        held = [
            _held(slot["cpu"], slot["memory_bytes"], len(slot["gpus"]), slot.get("home") or "")
            for slot in slots.values()
        ]
        return self._total - sum(held, Resources(0, 0, 0))

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TargetUnavailableError(
                f"a node cannot be kept in {self._root}: {error}",
                hint="look for a full disk or missing permissions",
            ) from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One at a time, over all processes that share this root."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._root / ".slots.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _held(cpu: float, memory_bytes: int, gpu: int, home: str) -> Resources:
    """Whoever sits before a notebook shares the machine with all that runs there; a GPU is theirs.

    Else a laptop with a notebook on it would have no room for what the notebook submits.
    """
    return Resources(0, 0, gpu) if home else Resources(cpu, memory_bytes, gpu)


def _least_used(cpu: float, slots: Mapping[str, Mapping[str, Any]]) -> list[int]:
    """As many CPUs as it needs, those first that the fewest slots have."""
    uses = Counter(each for slot in slots.values() for each in slot["cpus"])
    usable = sorted(machine.usable_cpus(), key=lambda each: (uses[each], each))
    return sorted(usable[: max(1, math.ceil(cpu))])


def _machine(node_id: str, slot: Mapping[str, Any]) -> Machine:
    gpus = tuple(slot["gpus"])
    owned = Resources(slot["cpu"], slot["memory_bytes"], len(gpus))
    name = f"{socket.gethostname()}-{node_id[:8]}"
    home = {"home": slot["home"]} if slot.get("home") else {}
    return Machine(name, owned, gpus, {"address": "127.0.0.1", **home})


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    temporary.replace(path)
