"""Sizes of nodes: what a site offers, and Azure's names led to the nearest of those."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from .errors import UserErrorException
from .nearest import suggest
from .resources import Resources

_GIB = 2**30
_MOST = 100_000


@dataclass(frozen=True)
class Size:
    """A kind of node that can be asked for by name."""

    name: str
    cpu: float
    memory_bytes: int = 0
    gpu: int = 0
    price_per_hour: float = 0.0

    @property
    def resources(self) -> Resources:
        return Resources(self.cpu, self.memory_bytes, self.gpu)

    def times_in(self, free: Resources) -> int:
        """How often it fits, counted no further than any cluster goes."""
        return max(0, min(_MOST, *(math.floor(share + 1e-9) for share in self._shares(free))))

    def taken_by(self, amount: Resources) -> int:
        """How many of this size are not there any more where so much is taken."""
        return max(math.ceil(share) for share in self._shares(amount))

    def _shares(self, amount: Resources) -> List[float]:
        """The amount in nodes of this size, by each thing that such a node has."""
        shares = [amount.cpu / self.cpu]
        if self.memory_bytes:
            shares.append(amount.memory_bytes / self.memory_bytes)
        if self.gpu:
            shares.append(amount.gpu / self.gpu)
        return shares


def catalogue(machine: Resources) -> List[Size]:
    """How one machine can be cut: 1, 2, 4, ... CPUs with their share of memory, and the whole.

    Where it has GPUs, also with 1, 2, 4, ... of them and their share of the rest.
    """
    cpus = _powers(int(machine.cpu)) or [machine.cpu]
    sizes = [_share(machine, cpu / machine.cpu, cpu, 0) for cpu in _with(cpus, machine.cpu)]
    for gpu in _with(_powers(machine.gpu), machine.gpu):
        part = gpu / machine.gpu
        cpu = max(1, int(machine.cpu * part)) if part < 1 else machine.cpu
        sizes.append(_share(machine, part, cpu, int(gpu)))
    return sizes


def nearest(wanted: str, sizes: Sequence[Size]) -> Tuple[Size, Optional[str]]:
    """The size of that name, or the nearest to what Azure means by it, and what is to be told.

    No name at all is the smallest size.
    """
    if not sizes:
        raise UserErrorException("this site has no sizes", hint="it has no machine that answers")
    if not wanted:
        return min(sizes, key=lambda size: (size.gpu, size.cpu, size.memory_bytes)), None
    for size in sizes:
        if size.name.lower() == wanted.lower():
            return size, None
    meant = azure(wanted)
    if meant is None:
        raise _unknown(wanted, sizes)
    found = min(sizes, key=lambda size: _distance(meant, size))
    told = f"{wanted} ({meant}) is {found.name} here ({found.resources})"
    if meant.fits(found.resources):
        return found, told
    return found, told + ", the nearest to it, with less than it asks for"


def azure(name: str) -> Optional[Resources]:
    """What Azure's size of that name has: from the table, or read from the name itself."""
    short = re.sub(r"^(standard|basic)_", "", name.strip().lower())
    if short in _AZURE:
        cpu, gib, gpu = _AZURE[short]
        return Resources(cpu, int(gib * _GIB), gpu)
    match = _FAMILY.match(short) if name.lower().startswith("standard_") else None
    if match is None:
        return None
    family, cpu, features = match.group(1), int(match.group(2)), match.group(3)
    gib_per_cpu = 2 if "l" in features and family == "d" else _GIB_PER_CPU[family]
    return Resources(float(cpu), cpu * gib_per_cpu * _GIB, 0)


def _unknown(wanted: str, sizes: Sequence[Size]) -> UserErrorException:
    names = [size.name for size in sizes]
    known = [*names, *(f"Standard_{short.upper()}" for short in _AZURE)]
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return UserErrorException(
        f"there is no size {wanted!r}{suggest(wanted, known, 2)}",
        hint=f"here are {shown}; Azure's names lead to the nearest of these",
    )


def _distance(meant: Resources, size: Size) -> Tuple[float, ...]:
    """The number of GPUs counts most; then what it lacks, then what it has too much."""
    gpu = meant.gpu - size.gpu
    lacks = [meant.cpu - size.cpu, float(meant.memory_bytes - size.memory_bytes)]
    short = [max(0.0, lack) for lack in lacks]
    return (max(0, gpu), max(0, -gpu), *short, *(-lack for lack in lacks), size.price_per_hour)


def _share(machine: Resources, part: float, cpu: float, gpu: int) -> Size:
    name = f"local-{cpu:g}" + (f"-gpu{gpu}" if gpu else "")
    return Size(name, float(cpu), int(machine.memory_bytes * part), gpu)


def _powers(most: int) -> List[float]:
    return [2.0**n for n in range(most.bit_length())] if most > 0 else []


def _with(counts: Sequence[float], whole: float) -> List[float]:
    return sorted({*counts, whole}) if whole else list(counts)


# Sizes whose names say little of what they have: CPUs, GiB of memory, GPUs.
_TABLE: Dict[str, Tuple[float, float, int]] = {
    "b1s": (1, 1, 0),
    "b1ms": (1, 2, 0),
    "b2s": (2, 4, 0),
    "a1_v2": (1, 2, 0),
    "a2_v2": (2, 4, 0),
    "a4_v2": (4, 8, 0),
    "a8_v2": (8, 16, 0),
    "a2m_v2": (2, 16, 0),
    "a4m_v2": (4, 32, 0),
    "a8m_v2": (8, 64, 0),
    "nc6": (6, 56, 1),
    "nc12": (12, 112, 2),
    "nc24": (24, 224, 4),
    "nc24r": (24, 224, 4),
    "nc6s_v2": (6, 112, 1),
    "nc12s_v2": (12, 224, 2),
    "nc24s_v2": (24, 448, 4),
    "nc24rs_v2": (24, 448, 4),
    "nc6s_v3": (6, 112, 1),
    "nc12s_v3": (12, 224, 2),
    "nc24s_v3": (24, 448, 4),
    "nc24rs_v3": (24, 448, 4),
    "nc4as_t4_v3": (4, 28, 1),
    "nc8as_t4_v3": (8, 56, 1),
    "nc16as_t4_v3": (16, 110, 1),
    "nc64as_t4_v3": (64, 440, 4),
    "nc24ads_a100_v4": (24, 220, 1),
    "nc48ads_a100_v4": (48, 440, 2),
    "nc96ads_a100_v4": (96, 880, 4),
    "nc40ads_h100_v5": (40, 320, 1),
    "nc80adis_h100_v5": (80, 640, 2),
    "nd6s": (6, 112, 1),
    "nd12s": (12, 224, 2),
    "nd24s": (24, 448, 4),
    "nd24rs": (24, 448, 4),
    "nd40rs_v2": (40, 672, 8),
    "nd96asr_v4": (96, 900, 8),
    "nd96amsr_a100_v4": (96, 1900, 8),
    "nd96isr_h100_v5": (96, 1900, 8),
    "nd96isr_h200_v5": (96, 1850, 8),
    "nv6": (6, 56, 1),
    "nv12": (12, 112, 2),
    "nv24": (24, 224, 4),
    "nv12s_v3": (12, 112, 1),
    "nv24s_v3": (24, 224, 2),
    "nv48s_v3": (48, 448, 4),
    "nv36ads_a10_v5": (36, 440, 1),
    "nv72ads_a10_v5": (72, 880, 2),
}
# The first two generations of D count in steps, not in CPUs.
_STEPS: Dict[str, Tuple[float, float, int]] = {
    "1": (1, 3.5, 0),
    "2": (2, 7, 0),
    "3": (4, 14, 0),
    "4": (8, 28, 0),
    "5": (16, 56, 0),
    "11": (2, 14, 0),
    "12": (4, 28, 0),
    "13": (8, 56, 0),
    "14": (16, 112, 0),
    "15": (20, 140, 0),
}
_FORMS = ("d{}", "ds{}", "d{}_v2", "ds{}_v2")
_AZURE = {**_TABLE, **{form.format(step): _STEPS[step] for step in _STEPS for form in _FORMS}}

_FAMILY = re.compile(r"([bdefhlm])(\d{1,3})(?:-\d+)?([a-z]*)(?:_v\d+)?\Z")
_GIB_PER_CPU = {"b": 4, "d": 4, "e": 8, "f": 2, "h": 7, "l": 8, "m": 16}
