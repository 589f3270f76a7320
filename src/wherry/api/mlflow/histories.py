"""What a metric was, point by point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.sampling import outline
from wherry.store import metrics, runs
from wherry.store.points import Points

from .calls import Call, as_real, endpoint, whole
from .tokens import cut

_MOST = 100_000
_RUNS_AT_ONCE = 100
_DRAWN = 2500


@endpoint("GET", "metrics/get-history")
def get_history(call: Call) -> Mapping[str, Any]:
    row = call.run()
    name = call.text("metric_key")
    with call.plane.database.read() as connection:
        found = metrics.history(connection, row.seq, name)
    limit = call.number("max_results", 0, 1, _MOST)
    shown = _points(name, found)
    page, following = cut(shown, limit or len(shown), call.maybe("page_token"))
    return {"metrics": page, **({"next_page_token": following} if following else {})}


@endpoint("GET", "metrics/get-history-bulk")
def get_history_bulk(call: Call) -> Mapping[str, Any]:
    """The runs in the order of their ids."""
    limit = call.number("max_results", 25_000, 1, _MOST)
    wanted = [str(each) for each in call.several("run_id")]
    if not wanted:
        raise UserErrorException("GetMetricHistoryBulk request must specify at least one run_id.")
    if len(wanted) > _RUNS_AT_ONCE:
        raise UserErrorException(
            f"GetMetricHistoryBulk request cannot specify more than {_RUNS_AT_ONCE} run_ids."
        )
    name = call.maybe("metric_key")
    if not name:
        raise UserErrorException("GetMetricHistoryBulk request must specify a metric_key.")
    found: list[dict[str, Any]] = []
    for run_id, points in _of_runs(call, sorted(wanted), name):
        found += _points(name, points, run_id)
    return {"metrics": found[:limit]}


@endpoint("GET", "metrics/get-history-bulk-interval")
def get_history_bulk_interval(call: Call) -> Mapping[str, Any]:
    """Of each run so many points at most, the lowest and highest among them."""
    wanted = [str(each) for each in call.several("run_ids")]
    if not wanted:
        raise UserErrorException("Missing value for required parameter 'run_ids'.")
    if len(wanted) > _RUNS_AT_ONCE:
        raise UserErrorException(
            f"GetMetricHistoryBulkInterval request must specify at most {_RUNS_AT_ONCE} run_ids."
        )
    name, limit, span = call.text("metric_key"), _limit(call), _span(call)
    found: list[dict[str, Any]] = []
    for run_id, points in _of_runs(call, wanted, name):
        inside = points
        if span is not None:
            steps = enumerate(_steps(points))
            inside = points.chosen([place for place, step in steps if step in span])
        found += _points(name, inside.chosen(outline(inside.values, limit)), run_id)
    return {"metrics": found}


def _limit(call: Call) -> int:
    limit = whole("max_results", call.maybe("max_results") or _DRAWN)
    if not 1 <= limit <= _DRAWN:
        raise UserErrorException(f"max_results must be between 1 and {_DRAWN}.")
    return limit


def _span(call: Call) -> range | None:
    first, last = call.maybe("start_step"), call.maybe("end_step")
    if first is None and last is None:
        return None
    if first is None or last is None:
        raise UserErrorException(
            "If either start step or end step are specified, both must be specified."
        )
    span = range(whole("start_step", first), whole("end_step", last) + 1)
    if not span:
        raise UserErrorException(
            f"end_step must be greater than start_step. They are {last} and {first}."
        )
    return span


def _of_runs(call: Call, wanted: Sequence[str], name: str) -> list[tuple[str, Points]]:
    found = []
    with call.plane.database.read() as connection:
        for run_id in wanted:
            row = runs.find(connection, run_id)
            if row is None or row.workspace_id != call.workspace.id:
                raise NotFoundError(f"Run with id={run_id} not found")
            found.append((run_id, metrics.history(connection, row.seq, name)))
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
