"""What a metric was, point by point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.sampling import outline
from wherry.store import metrics, runs
from wherry.store.points import Points

from .calls import Call, as_real, endpoint
from .tokens import cut

_MOST = 100_000
_RUNS_AT_ONCE = 100


@endpoint("GET", "metrics/get-history")
def get_history(call: Call) -> Mapping[str, Any]:
    row = call.run()
    name = call.text("metric_key")
    with call.plane.database.read() as connection:
        found = metrics.history(connection, row.seq, name)
    limit = call.number("max_results", 0, 0, _MOST)
    shown = _points(name, found)
    if not limit:
        return {"metrics": shown}
    page, following = cut(shown, limit, call.maybe("page_token"))
    return {"metrics": page, **({"next_page_token": following} if following else {})}


@endpoint("GET", "metrics/get-history-bulk")
def get_history_bulk(call: Call) -> Mapping[str, Any]:
    limit = call.number("max_results", 25_000, 1, _MOST)
    found: list[dict[str, Any]] = []
    for run_id, points in _of_runs(call, "run_id"):
        found += _points(call.text("metric_key"), points, run_id)
    return {"metrics": found[:limit]}


@endpoint("GET", "metrics/get-history-bulk-interval")
def get_history_bulk_interval(call: Call) -> Mapping[str, Any]:
    """Of each run so many points at most, the lowest and highest among them."""
    limit = call.number("max_results", 2500, 1, 2500)
    first, last = call.maybe("start_step"), call.maybe("end_step")
    if (first is None) != (last is None):
        raise UserErrorException("start_step and end_step come together")
    found: list[dict[str, Any]] = []
    for run_id, points in _of_runs(call, "run_ids"):
        inside = points
        if first is not None and last is not None:
            steps = enumerate(_steps(points))
            inside = points.chosen(
                [place for place, step in steps if int(first) <= step <= int(last)]
            )
        chosen = inside.chosen(outline(inside.values, limit))
        found += _points(call.text("metric_key"), chosen, run_id)
    return {"metrics": found}


def _of_runs(call: Call, name: str) -> list[tuple[str, Points]]:
    wanted = [str(each) for each in call.several(name)]
    if not wanted or len(wanted) > _RUNS_AT_ONCE:
        raise UserErrorException(f"{name} names 1 to {_RUNS_AT_ONCE} runs")
    found = []
    with call.plane.database.read() as connection:
        for run_id in wanted:
            row = runs.find(connection, run_id)
            if row is None or row.workspace_id != call.workspace.id:
                raise NotFoundError(f"Run with id={run_id} not found")
            found.append((run_id, metrics.history(connection, row.seq, call.text("metric_key"))))
    return found


def _points(name: str, points: Points, run_id: str | None = None) -> list[dict[str, Any]]:
    more = {} if run_id is None else {"run_id": run_id}
    return [
        {"key": name, "value": as_real(float(value)), "timestamp": at // 1000, "step": step, **more}
        for at, step, value in zip(points.times, _steps(points), points.values, strict=True)
        if isinstance(value, (int, float))
    ]


def _steps(points: Points) -> list[int]:
    """A point that was logged without one has its place."""
    return [place if step is None else step for place, step in enumerate(points.steps)]
