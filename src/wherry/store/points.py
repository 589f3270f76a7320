"""Points of one metric, packed into bytes: columns of eight bytes a number, alike everywhere.

A value keeps its type: floats to the last bit, NaN among them; integers; everything else, and what
is mixed, as JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

FLOATS, INTEGERS, JSON = "d", "q", "j"
_NO_STEP = -(2**63)
_WIDTH = 8


@dataclass
class Points:
    """In the order in which they were logged; times are microseconds since 1970."""

    times: list[int] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.times)

    def add(self, at: int, step: int | None, value: Any) -> None:
        self.times.append(at)
        self.steps.append(step)
        self.values.append(value)

    def extend(self, others: Points) -> None:
        self.times.extend(others.times)
        self.steps.extend(others.steps)
        self.values.extend(others.values)

    def part(self, first: int, end: int) -> Points:
        return Points(self.times[first:end], self.steps[first:end], self.values[first:end])

    def chosen(self, places: Iterable[int]) -> Points:
        some = Points()
        for place in places:
            some.add(self.times[place], self.steps[place], self.values[place])
        return some


def pack(points: Points) -> dict[str, Any]:
    """The columns of a chunk."""
    form = _form(points.values)
    steps = None
    if any(step is not None for step in points.steps):
        steps = _packed("q", [_NO_STEP if step is None else step for step in points.steps])
    return {
        "count": len(points),
        "oldest_at": min(points.times),
        "newest_at": max(points.times),
        "form": form,
        "times": _packed("q", points.times),
        "steps": steps,
        "data": json.dumps(points.values, separators=(",", ":")).encode()
        if form == JSON
        else _packed(form, points.values),
    }


def unpack(row: Any) -> Points:
    steps: list[int | None] = [None] * row.count
    if row.steps is not None:
        steps = [None if step == _NO_STEP else step for step in _numbers("q", row.steps)]
    values = json.loads(row.data) if row.form == JSON else _numbers(row.form, row.data)
    return Points(_numbers("q", row.times), steps, values)


def bounded(step: int | None) -> int | None:
    """As eight bytes hold it; the least of all stands for none."""
    return None if step is None else max(_NO_STEP + 1, min(step, 2**63 - 1))


def _form(values: Sequence[Any]) -> str:
    kinds = set(map(type, values))
    if kinds == {float}:
        return FLOATS
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return INTEGERS
    return JSON


def _packed(kind: str, numbers: Sequence[Any]) -> bytes:
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


def _numbers(kind: str, packed: bytes) -> list[Any]:
    return list(struct.unpack(f"<{len(packed) // _WIDTH}{kind}", packed))
