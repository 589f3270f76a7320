"""Metrics in a line, and two runs' metrics side by side."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping

_ADDRESS = "aml://artifactId/"
_LONG = 10**15
_LONGEST = 60


def number(value: Any) -> str:
    """Short, and the same wherever it is shown; of a picture's address the file's name."""
    if isinstance(value, str) and value.startswith(_ADDRESS):
        return value.rpartition("/")[2]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if abs(value) < _LONG else _scientific(value)


def short(value: Any) -> str:
    """The same on one line of bearable length: a text may be a whole document."""
    text = number(value)
    line = " ".join(text[: 2 * _LONGEST].split())
    cut = len(line) > _LONGEST or len(text) > 2 * _LONGEST
    return line[: _LONGEST - 1] + "…" if cut else line


def summary(value: Any) -> str:
    """A number; of a series the last, the least and the greatest; of a row each column's last."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_ending(_as_list(cell))}" for key, cell in value.items())
    values = _as_list(value)
    numbers = [each for each in values if isinstance(each, (int, float))]
    ordered = [each for each in numbers if not (isinstance(each, float) and math.isnan(each))]
    if not ordered or len(numbers) < len(values):
        return _ending(values)
    return _ending(values, f"; min {number(min(ordered))}, max {number(max(ordered))}")


def flat(metrics: Mapping[str, Any]) -> Dict[str, Any]:
    """One value for each name: of a series the last, of a row or table each column's last."""
    found: Dict[str, Any] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found.update({f"{name}.{column}": _last(cell) for column, cell in value.items()})
        else:
            found[name] = _last(value)
    return found


def difference(before: Any, after: Any) -> str:
    if not (_can_differ(before) and _can_differ(after)) or before == after:
        return ""
    try:
        return f"{after - before:+.4g}"
    except OverflowError:  # integers have no bounds, and numbers that are shown have
        return ""


def _as_list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else [value]


def _ending(values: List[Any], spread: str = "") -> str:
    if len(values) < 2:
        return short(values[0]) if values else "none"
    return f"{short(values[-1])}  (last of {len(values):,}{spread})"


def _can_differ(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, float) and math.isfinite(value)


def _scientific(value: int) -> str:
    from decimal import Decimal

    return f"{Decimal(value):.6g}"


def _last(value: Any) -> Any:
    if isinstance(value, list):
        return value[-1] if value else None
    return value
