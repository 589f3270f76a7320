"""Runs as a table, one row each, and their metrics, one row for each point."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional

from ..core.records import iso
from ..core.script_arguments import by_name
from .client import Client, quote

TIMES = ("submitted_at", "started_at", "ended_at", "at")
POINT = ("run_id", "metric", "step", "at", "value")
_FIELDS = ("id", "display_name", "experiment", "status", "submitted_at", "started_at", "ended_at")
_INCLUDED = ["metrics", "arguments"]
_LEAST, _GREATEST = -(2**63), 2**63 - 1

Table = Dict[str, List[Any]]
Row = Dict[str, Any]


def wanted(params: Mapping[str, Any]) -> Dict[str, Any]:
    """The parameters of a listing that has what a table needs."""
    return {**params, "include": _INCLUDED}


def of_runs(records: Iterable[Mapping[str, Any]]) -> Table:
    """A column for each field, and for each name that a run has: ``metrics.auc``, ``params.lr``,
    ``arguments.lr``, ``tags.team``. Parameters and arguments are numbers where all of a column are.
    """
    rows = [_row(record) for record in records]
    plain = list(_row({}))
    named = {name for row in rows for name in row} - set(plain)
    return {
        name: _column(name, [row.get(name) for row in rows]) for name in [*plain, *_sorted(named)]
    }


def of_points(points: Iterable[Row]) -> Table:
    rows = list(points)
    return {name: _column(name, [row[name] for row in rows]) for name in POINT}


def points(client: Client, run_id: str, name: Optional[str] = None) -> Iterator[Row]:
    """Every point of a run's metrics, or of one of them."""
    path = f"/runs/{quote(run_id)}/metrics"
    for metric in [name] if name is not None else _scalars(client, path):
        answer = client.get(f"{path}/history", {"name": metric})
        for step, at, value in zip(answer["steps"], answer["times"], answer["values"]):
            when = iso(datetime.fromtimestamp(at, timezone.utc))
            yield {"run_id": run_id, "metric": metric, "step": step, "at": when, "value": value}


def _scalars(client: Client, path: str) -> List[str]:
    metrics = client.get(f"{path}/summary")["metrics"]
    return [name for name, told in metrics.items() if told["kind"] == "scalar"]


def _row(record: Mapping[str, Any]) -> Row:
    row: Row = {("name" if name == "display_name" else name): record.get(name) for name in _FIELDS}
    row["duration_s"] = _between(record.get("started_at"), record.get("ended_at"))
    row["target"] = record.get("target")
    arguments = by_name(record.get("arguments") or [])
    kinds = {
        "params": record.get("params"),
        "arguments": {name.lstrip("-"): value for name, value in arguments.items()},
        "tags": record.get("tags"),
        "metrics": record.get("metrics"),
    }
    for kind, values in kinds.items():
        row.update({f"{kind}.{name}": value for name, value in (values or {}).items()})
    return row


def _between(start: Optional[str], end: Optional[str]) -> Optional[float]:
    if not start or not end:
        return None
    return (moment(end) - moment(start)).total_seconds()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _sorted(names: Iterable[str]) -> List[str]:
    kinds = ("params", "arguments", "tags", "metrics")
    return sorted(names, key=lambda name: (kinds.index(name.partition(".")[0]), name))


def _column(name: str, values: List[Any]) -> List[Any]:
    """All of one kind: whole numbers, numbers or texts."""
    if name.startswith(("params.", "arguments.")):
        numbers = [_number(value) for value in values]
        if all(new is not None for new, old in zip(numbers, values) if old is not None):
            values = numbers
    present = [value for value in values if value is not None]
    if all(isinstance(value, int) and _LEAST <= value <= _GREATEST for value in present):
        return values
    if all(isinstance(value, (int, float)) for value in present):
        return [None if value is None else _as_float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def _number(text: Any) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            continue
    return None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
