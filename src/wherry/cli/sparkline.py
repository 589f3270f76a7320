"""Curves in a line of text."""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


class Curve(NamedTuple):
    """The points that are numbers."""

    steps: List[float]
    values: List[float]


def curve(steps: Sequence[Any], values: Sequence[Any]) -> Curve:
    """Points without a step are counted."""
    chosen = [
        (float(place if step is None else step), float(value))
        for place, (step, value) in enumerate(zip(steps, values))
        if isinstance(value, (int, float)) and _is_finite(value)
    ]
    return Curve([step for step, _ in chosen], [value for _, value in chosen])


def draw(curves: Sequence[Curve], width: int) -> List[str]:
    """A line for each, all on the same scales: steps from left to right, values from the least to
    the greatest of all. Of what falls into one place, the farthest from its median is shown.
    """
    steps = [step for each in curves for step in each.steps]
    values = [value for each in curves for value in each.values]
    if not values:
        return ["" for _ in curves]
    width = max(1, min(width, max(len(set(each.steps)) for each in curves)))
    return [
        _line(each, (min(steps), max(steps)), (min(values), max(values)), width) for each in curves
    ]


def _line(each: Curve, across: Any, along: Any, width: int) -> str:
    places: List[Optional[float]] = [None] * width
    first, last = across
    low, high = along
    middle = sorted(each.values)[len(each.values) // 2] if each.values else 0.0
    for step, value in zip(each.steps, each.values):
        place = int((step - first) / (last - first) * (width - 1) + 0.5) if last > first else 0
        before = places[place]
        if before is None or abs(value - middle) > abs(before - middle):
            places[place] = value
    return _filled([_block(value, low, high) for value in places])


def _block(value: Optional[float], low: float, high: float) -> str:
    if value is None:
        return " "
    if not high > low:
        return _BLOCKS[0]
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the whole may be infinite
    return _BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)]


def _filled(blocks: List[str]) -> str:
    """Between two points the first holds."""
    line = "".join(blocks).rstrip()
    for place in range(1, len(line)):
        if line[place] == " " and line[place - 1] != " ":
            line = line[:place] + line[place - 1] + line[place + 1 :]
    return line


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer without bounds
        return False
