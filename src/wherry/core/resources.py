"""What a run asks for and what a node has: CPUs, memory, GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from .errors import UserErrorException

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\Z", re.IGNORECASE)


def parse_bytes(text: Union[str, int]) -> int:
    """A size in bytes: ``4GB``, ``512Mi``, ``1500000``."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SIZE.match(str(text).strip())
    if not match:
        raise UserErrorException(f"{text!r} is not a size", hint="write it like 4GB or 512Mi")
    unit = (match.group(2) or "").lower()
    return int(float(match.group(1)) * {**_UNITS, **_BINARY_UNITS}[unit])


def format_bytes(count: float) -> str:
    """A size for people, in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


@dataclass(frozen=True)
class Resources:
    """An amount of compute, asked for or owned. ``memory_bytes`` 0 asks for no share of memory."""

    cpu: float = 1.0
    memory_bytes: int = 0
    gpu: int = 0

    @classmethod
    def parse(cls, fields: Optional[Mapping[str, Any]]) -> Resources:
        """From what a user wrote: ``{"cpu": 2, "memory": "4GB", "gpu": 1}``."""
        fields = dict(fields or {})
        memory = fields.pop("memory", None) or fields.pop("memory_bytes", 0) or 0
        fields.pop("memory_bytes", None)
        cpu, gpu = fields.pop("cpu", 1.0), fields.pop("gpu", 0)
        if fields:
            raise UserErrorException(
                f"resources have no field {sorted(fields)[0]!r}",
                hint="the fields are cpu, memory and gpu",
            )
        try:
            wanted = cls(cpu=float(cpu), memory_bytes=parse_bytes(memory), gpu=int(gpu))
        except (TypeError, ValueError, OverflowError):
            raise UserErrorException(
                f"resources cpu={cpu!r}, gpu={gpu!r} are not numbers"
            ) from None
        finite = wanted.cpu == wanted.cpu and wanted.cpu < 1e6 and wanted.memory_bytes < 2**62
        if wanted.cpu <= 0 or wanted.memory_bytes < 0 or not 0 <= wanted.gpu < 10**6 or not finite:
            raise UserErrorException(
                f"{wanted} cannot be asked for",
                hint="cpu must be above 0, memory and gpu not below 0",
            )
        return wanted

    def fits(self, free: Resources) -> bool:
        return (
            self.cpu <= free.cpu + 1e-9
            and self.memory_bytes <= free.memory_bytes
            and self.gpu <= free.gpu
        )

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu + other.cpu, self.memory_bytes + other.memory_bytes, self.gpu + other.gpu
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu - other.cpu, self.memory_bytes - other.memory_bytes, self.gpu - other.gpu
        )

    def __str__(self) -> str:
        parts = [f"{self.cpu:g} CPU" + ("" if self.cpu == 1 else "s")]
        if self.memory_bytes:
            parts.append(f"{format_bytes(self.memory_bytes)} of memory")
        if self.gpu:
            parts.append(f"{self.gpu} GPU" + ("" if self.gpu == 1 else "s"))
        return ", ".join(parts)
