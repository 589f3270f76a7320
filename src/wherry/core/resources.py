"""What a run asks for and what a node has: CPUs, memory, GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from .errors import UserErrorException
from .sizes import format_bytes, parse_bytes


def _number(name: str, value: Any) -> float:
    try:
        whole = isinstance(value, int) or float(value) == int(value) if name == "gpu" else True
        if whole and not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    kind = "a whole number" if name == "gpu" else "a number"
    raise UserErrorException(
        f"resources.{name} is {value!r}, which is not {kind}", hint=f"such as: {name}: 2"
    )


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
        wanted = cls(
            cpu=_number("cpu", cpu), memory_bytes=parse_bytes(memory), gpu=int(_number("gpu", gpu))
        )
        finite = wanted.cpu == wanted.cpu and wanted.cpu < 1e6 and wanted.memory_bytes < 2**62
        if wanted.cpu <= 0 or wanted.memory_bytes < 0 or not 0 <= wanted.gpu < 10**6 or not finite:
            raise UserErrorException(
                f"{wanted} cannot be asked for",
                hint="cpu must be above 0, memory and gpu not below 0, and none beyond any machine",
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
