"""Experiments: made, found, renamed, archived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherry.control import tracked_runs
from wherry.control.tracked_runs import DEFAULT
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.records import Experiment
from wherry.core.search import (
    ATTRIBUTE,
    NUMBER,
    TAG,
    TEXT,
    Vocabulary,
    meets,
    parse_filter,
    parse_order,
)
from wherry.core.text import clean
from wherry.store import runs, workspaces

from . import shapes
from .calls import Call, endpoint
from .tokens import cut

_WORDS = Vocabulary(
    frozenset({ATTRIBUTE, TAG}),
    {"name": TEXT, "creation_time": NUMBER, "last_update_time": NUMBER, "experiment_id": TEXT},
    {},
)
_VIEWS = {"ACTIVE_ONLY": (True, False), "DELETED_ONLY": (False, True), "ALL": (True, True)}
_MAX_NAME = 255
_MOST = 50_000


@endpoint("POST", "experiments/create")
def create(call: Call) -> Mapping[str, Any]:
    name = call.text("name")
    if call.caller.run_id is not None:
        return {"experiment_id": own(call).id}
    if len(name) > _MAX_NAME or clean(name) != name:
        raise UserErrorException(
            f"an experiment's name has at most {_MAX_NAME} letters, and no NUL among them"
        )
    tags = call.pairs("tags")
    if call.maybe("artifact_location"):
        tags[shapes.LOCATION] = call.text("artifact_location").rstrip("/")
    now = call.plane.now()
    with call.plane.write() as connection:
        if workspaces.find_experiment(connection, call.workspace, name) is not None:
            raise ConflictError(f"Experiment(name={name}) already exists.")
        made = workspaces.ensure_experiment(connection, call.workspace, name, now)
        workspaces.update_experiment(connection, made, {"tags": tags})
    return {"experiment_id": made.id}


@endpoint("GET", "experiments/get")
def get(call: Call) -> Mapping[str, Any]:
    found = tracked_runs.experiment(call.plane, call.workspace, call.text("experiment_id"))
    return {"experiment": shapes.experiment(found)}


@endpoint("GET", "experiments/get-by-name")
def get_by_name(call: Call) -> Mapping[str, Any]:
    name = call.text("experiment_name")
    with call.plane.database.read() as connection:
        found = workspaces.find_experiment(connection, call.workspace, name)
    if found is None and call.caller.run_id is not None:
        found = own(call)
    if found is None and name == DEFAULT:
        found = tracked_runs.experiment(call.plane, call.workspace, tracked_runs.DEFAULT_ID)
    if found is None:
        raise NotFoundError(f"Could not find experiment with name '{name}'")
    return {"experiment": shapes.experiment(found)}


@endpoint("POST", "experiments/search")
@endpoint("GET", "experiments/search")
def search(call: Call) -> Mapping[str, Any]:
    conditions = parse_filter(call.maybe("filter"), _WORDS)
    orders = [parse_order(str(each), _WORDS) for each in call.several("order_by")]
    active, deleted = _view(call, "view_type")
    tracked_runs.experiment(call.plane, call.workspace, tracked_runs.DEFAULT_ID)
    with call.plane.database.read() as connection:
        known = workspaces.list_experiments(connection, call.workspace, archived=True)
    found = [
        each
        for each in known
        if (active if each.archived_at is None else deleted)
        and all(meets(condition, _value(each, condition)) for condition in conditions)
    ]
    found.sort(key=lambda each: each.created_at, reverse=True)
    for order in reversed(orders):
        found.sort(key=lambda each: _sortable(_value(each, order)), reverse=order.descending)
    page, following = cut(
        found, call.number("max_results", 1000, 1, _MOST), call.maybe("page_token")
    )
    return {
        "experiments": [shapes.experiment(each) for each in page],
        **({"next_page_token": following} if following else {}),
    }


@endpoint("POST", "experiments/update")
def update(call: Call) -> Mapping[str, Any]:
    call.only_people("rename an experiment")
    name = call.maybe("new_name")
    with call.plane.write() as connection:
        found = _named(call, connection)
        if name and name != found.name:
            if workspaces.find_experiment(connection, call.workspace, name) is not None:
                raise ConflictError(f"Experiment(name={name}) already exists.")
            workspaces.update_experiment(connection, found, {"name": clean(name, _MAX_NAME)})
    return {}


@endpoint("POST", "experiments/delete")
def delete(call: Call) -> Mapping[str, Any]:
    return _archive(call, archived=True)


@endpoint("POST", "experiments/restore")
def restore(call: Call) -> Mapping[str, Any]:
    return _archive(call, archived=False)


@endpoint("POST", "experiments/set-experiment-tag")
def set_tag(call: Call) -> Mapping[str, Any]:
    return _retag(call, {call.text("key"): call.maybe("value") or ""}, None)


@endpoint("POST", "experiments/delete-experiment-tag")
def delete_tag(call: Call) -> Mapping[str, Any]:
    return _retag(call, {}, call.text("key"))


def own(call: Call) -> Experiment:
    """A script that names an experiment logs into its run, whatever experiment that is in."""
    with call.plane.database.read() as connection:
        row = runs.get(connection, call.caller.run_id or "")
        found = workspaces.experiment_by_id(connection, call.workspace, row.experiment_id)
    if found is None:
        raise NotFoundError(f"run {row.id} has no experiment any more")
    return found


def _view(call: Call, name: str) -> tuple[bool, bool]:
    view = call.maybe(name) or "ACTIVE_ONLY"
    if view not in _VIEWS:
        raise UserErrorException(f"{name} is {view!r}; it is one of {', '.join(_VIEWS)}")
    return _VIEWS[view]


def _named(call: Call, connection: Any) -> Experiment:
    wanted = call.text("experiment_id")
    if wanted == tracked_runs.DEFAULT_ID:
        return workspaces.ensure_experiment(connection, call.workspace, DEFAULT, call.plane.now())
    found = workspaces.experiment_by_id(connection, call.workspace, wanted)
    if found is None:
        raise NotFoundError(f"No Experiment with id={wanted} exists")
    return found


def _archive(call: Call, *, archived: bool) -> Mapping[str, Any]:
    call.only_people("archive an experiment")
    with call.plane.write() as connection:
        found = _named(call, connection)
        now = call.plane.now() if archived else None
        workspaces.update_experiment(connection, found, {"archived_at": now})
    return {}


def _retag(call: Call, more: Mapping[str, str], gone: str | None) -> Mapping[str, Any]:
    call.only_people("change an experiment")
    with call.plane.write() as connection:
        found = _named(call, connection)
        if gone is not None and gone not in found.tags:
            raise NotFoundError(f"No tag with name: {gone} in experiment with id {found.id}")
        tags = {key: value for key, value in {**found.tags, **more}.items() if key != gone}
        workspaces.update_experiment(connection, found, {"tags": tags})
    return {}


def _value(each: Experiment, wanted: Any) -> Any:
    if wanted.entity == TAG:
        return each.tags.get(wanted.key)
    shown = shapes.experiment(each)
    return shown[wanted.key]


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, value if value is not None else "")
