"""Runs: made, ended, found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherry.control import tracked_runs
from wherry.control.tracked_runs import DEFAULT, DEFAULT_ID, PARENT
from wherry.core.errors import ForbiddenError, UserErrorException
from wherry.core.search import RUNS, parse_filter, parse_order
from wherry.store import families, searching, workspaces
from wherry.store import runs as rows

from . import shapes
from .calls import Call, endpoint

_VIEWS = {"ACTIVE_ONLY": "active", "DELETED_ONLY": "archived", "ALL": "all"}
_MOST = 50_000


@endpoint("POST", "runs/create")
def create(call: Call) -> Mapping[str, Any]:
    """One that a run makes is below it: so says the tag that MLflow sets, or else who asks."""
    tags = call.pairs("tags")
    own = call.caller.run_id
    parent = tags.get(PARENT)
    if own and parent:
        with call.plane.database.read() as connection:
            if not families.descends_from(connection, parent, own):
                raise ForbiddenError(f"the token of run {own} does not reach run {parent}")
    fields = {
        "name": call.maybe("run_name"),
        "user": call.maybe("user_id"),
        "started_at": call.moment("start_time"),
        "tags": tags,
        "parent_id": own,
    }
    experiment_id = call.maybe("experiment_id") or DEFAULT_ID
    made = tracked_runs.create(call.plane, call.workspace, experiment_id, fields, call.caller.name)
    return {"run": _shown(call, made)}


@endpoint("GET", "runs/get")
def get(call: Call) -> Mapping[str, Any]:
    return {"run": _shown(call, call.run().id)}


@endpoint("POST", "runs/update")
def update(call: Call) -> Mapping[str, Any]:
    row = call.run(write=True)
    tracked_runs.update(
        call.plane, row.id, call.maybe("status"), call.moment("end_time"), call.maybe("run_name")
    )
    return {"run_info": _shown(call, row.id)["info"]}


@endpoint("POST", "runs/delete")
def delete(call: Call) -> Mapping[str, Any]:
    tracked_runs.archive(call.plane, call.run(write=True).id, archived=True)
    return {}


@endpoint("POST", "runs/restore")
def restore(call: Call) -> Mapping[str, Any]:
    tracked_runs.archive(call.plane, call.run(write=True).id, archived=False)
    return {}


@endpoint("POST", "runs/search")
def search(call: Call) -> Mapping[str, Any]:
    view = call.maybe("run_view_type") or "ACTIVE_ONLY"
    if view not in _VIEWS:
        raise UserErrorException(f"run_view_type is {view!r}; it is one of {', '.join(_VIEWS)}")
    wanted = [str(each) for each in call.several("experiment_ids")]
    if not wanted:
        return {"runs": []}
    with call.plane.database.read() as connection:
        search = searching.Search(
            call.workspace.id,
            [known_experiment(call, connection, each) for each in wanted],
            parse_filter(call.maybe("filter"), RUNS),
            [parse_order(str(each), RUNS) for each in call.several("order_by")],
            _VIEWS[view],
        )
        limit = call.number("max_results", 1000, 1, _MOST)
        seqs, following = searching.page(connection, search, limit, call.maybe("page_token"))
        found = _all(call, connection, rows.listed_in_parts(connection, seqs))
    return {"runs": found, **({"next_page_token": following} if following else {})}


def _shown(call: Call, run_id: str) -> dict[str, Any]:
    with call.plane.database.read() as connection:
        return _all(call, connection, [rows.get(connection, run_id)])[0]


def _all(call: Call, connection: Any, found: list[Any]) -> list[dict[str, Any]]:
    roots = {}
    for experiment_id in {row.experiment_id for row in found}:
        known = workspaces.experiment_by_id(connection, call.workspace, experiment_id)
        roots[experiment_id] = shapes.location(experiment_id, known.tags if known else {})
    return shapes.runs(connection, found, roots)


def known_experiment(call: Call, connection: Any, experiment_id: str) -> str:
    """MLflow's ``0`` by the id that it has here."""
    if experiment_id != DEFAULT_ID:
        return experiment_id
    found = workspaces.find_experiment(connection, call.workspace, DEFAULT)
    return experiment_id if found is None else found.id
