"""Many submissions at once: checked one by one, stored in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from wherry.core.environments import canonical
from wherry.core.errors import WherryError
from wherry.core.ids import new_uuid
from wherry.core.records import Workspace
from wherry.core.specs import RunSpec
from wherry.core.targets import key
from wherry.store import run_labels, runs, workspaces

from . import wheels
from .plane import Plane
from .submit import (
    check,
    check_present,
    check_snapshot,
    context_of,
    new_row,
    parsed,
    properties_of,
    root_of,
)


def submit_many(
    plane: Plane, workspace_name: str, many: Sequence[Mapping[str, Any]], who: str
) -> list[tuple[str, bool]]:
    """The run of each, in order, and whether this call made it. All of them are stored, or none."""
    specs = [
        _numbered(place, parsed, plane, workspace_name, fields) for place, fields in enumerate(many)
    ]
    _check_all(plane, workspace_name, specs)
    keys = [spec.submission_key or new_uuid() for spec in specs]
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
    made = _store(plane, workspace, specs, keys, who)
    for target in {spec.target for spec in specs}:
        plane.hint_queued(key(workspace.name, target))
    return made


def _numbered(place: int, act: Any, *arguments: Any) -> Any:
    """An error says which of the many it means."""
    try:
        return act(*arguments)
    except WherryError as error:
        error.message = f"run {place}: {error.message}"
        raise


def _check_all(plane: Plane, workspace_name: str, specs: Sequence[RunSpec]) -> None:
    """What is alike is looked at once."""
    seen = set()
    for place, spec in enumerate(specs):
        wanted = canonical([spec.environment.interpreter_path, spec.environment.specification])
        asked = (spec.resources, spec.node_count)
        alike = (spec.target, spec.snapshot_id, spec.script, wanted, asked)
        if alike not in seen:
            _numbered(place, check, plane, workspace_name, spec)
            seen.add(alike)


def _store(
    plane: Plane, workspace: Workspace, specs: Sequence[RunSpec], keys: Sequence[str], who: str
) -> list[tuple[str, bool]]:
    with plane.write() as connection:
        contexts = {context_of(spec) for spec in specs} - {None}
        for snapshot_id in {spec.snapshot_id for spec in specs} | contexts:
            check_snapshot(connection, workspace, str(snapshot_id))
        asked = (spec.environment.specification for spec in specs)
        wheels.check_there(connection, workspace, *asked)
        for target in sorted({spec.target for spec in specs}):
            check_present(connection, workspace, target)
        known = runs.with_keys(connection, workspace.id, keys)
        fresh = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in known}
        ids = _insert(plane, connection, workspace, fresh, who) if fresh else {}
    return [(ids.get(key) or known[key], key in ids) for key in keys]


def _insert(
    plane: Plane,
    connection: Connection,
    workspace: Workspace,
    fresh: Mapping[str, RunSpec],
    who: str,
) -> dict[str, str]:
    """The ids of the new runs by their keys."""
    now = plane.now()
    numbers: dict[str, Any] = {}
    # Here and below in one order, so that two submissions never wait for each other.
    for name, count in sorted(Counter(spec.experiment for spec in fresh.values()).items()):
        experiment = workspaces.ensure_experiment(connection, workspace, name, now)
        first = workspaces.next_number(connection, experiment, count)
        numbers[name] = (experiment.id, iter(range(first, first + count)))
    parents = {spec.parent_id for spec in fresh.values()}
    roots = {each: root_of(connection, workspace, each) for each in sorted(parents, key=str)}
    rows = []
    for given, spec in fresh.items():
        experiment_id, free = numbers[spec.experiment]
        root_id = roots[spec.parent_id]
        row = new_row(plane, spec, workspace, experiment_id, next(free), who, now, root_id)
        rows.append({**row, "submission_key": given})
    labelled = [
        {run_labels.TAG: spec.tags, run_labels.PROPERTY: properties_of(spec)}
        for spec in fresh.values()
    ]
    runs.add_many(connection, rows, labelled)
    return {row["submission_key"]: row["id"] for row in rows}
