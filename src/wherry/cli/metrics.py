"""Metrics in a line, and two runs' metrics side by side."""

from __future__ import annotations

from typing import Any, Dict, Mapping


def number(value: Any) -> str:
    """Short, and the same wherever it is shown."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def summary(value: Any) -> str:
    """A number, the last of a series, the shape of a table."""
    if isinstance(value, list):
        if not value:
            return "none"
        last = number(value[-1])
        return last if len(value) == 1 else f"{last}  (last of {len(value)})"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={summary(cell)}" for key, cell in value.items())
    return number(value)


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
    numbers = (int, float)
    if not isinstance(before, numbers) or not isinstance(after, numbers) or before == after:
        return ""
    return f"{after - before:+.4g}"


def _last(value: Any) -> Any:
    if isinstance(value, list):
        return value[-1] if value else None
    return value
