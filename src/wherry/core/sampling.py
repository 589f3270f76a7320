"""Fewer points for a picture, and no peak lost."""

from __future__ import annotations

import math
from typing import Any, List, Sequence


def outline(values: Sequence[Any], wanted: int) -> List[int]:
    """Places of about ``wanted`` values: of each stretch the least and the greatest, and the ends.

    Where something else than numbers is among them, all.

    >>> outline([0.0, 5.0, 1.0, 2.0, -3.0, 1.0], 4)
    [0, 1, 4, 5]
    """
    count = len(values)
    if count <= wanted or not all(isinstance(value, (int, float)) for value in values):
        return list(range(count))
    stretches = max(wanted // 2, 1)
    found = {0, count - 1}
    for number in range(stretches):
        first, end = count * number // stretches, count * (number + 1) // stretches
        found.update(_extremes(values, first, end))
    return sorted(found)


def _extremes(values: Sequence[Any], first: int, end: int) -> List[int]:
    part = values[first:end]
    numbers = [value for value in part if not math.isnan(value)]
    if not numbers:
        return [first]
    return [first + part.index(min(numbers)), first + part.index(max(numbers))]
