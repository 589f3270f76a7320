"""Pages of runs: by fields, by a filter in words, and in an order of what they logged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import UserErrorException
from wherry.core.nearest import suggest
from wherry.core.records import Workspace
from wherry.core.search import (
    ATTRIBUTE,
    PROPERTY,
    RUNS,
    TAG,
    Condition,
    parse_filter,
    parse_order,
)
from wherry.core.targets import key
from wherry.store import listing, metrics, run_records, runs, searching, workspaces
from wherry.store.listing import Filter
from wherry.store.runs import RunRow
from wherry.store.tables import ORDERS

from .plane import Plane
from .waiting import explain

METRICS, ARGUMENTS = "metrics", "arguments"
_MAX_TEXT = 10_000
_MAX_CONDITIONS = 50
_LOGGED = ("metrics.NAME", "params.NAME", "tags.NAME")


def page(
    plane: Plane,
    workspace_name: str,
    wanted: Filter,
    limit: int,
    cursor: str | None,
    *,
    text: str = "",
    include: Collection[str] = (),
) -> dict[str, Any]:
    """``text`` is a filter in words. ``include`` adds to each run its last ``metrics``, or the
    ``arguments`` of its script.
    """
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if text.strip() or wanted.order_by.lstrip("-") not in ORDERS:
            rows, following = _search(connection, workspace, wanted, text, limit, cursor)
        else:
            if wanted.target:
                wanted = replace(wanted, target=key(workspace.name, wanted.target))
            rows, following = listing.page(connection, workspace.id, wanted, limit, cursor)
        told = explain(plane, connection, rows)
        items = [run.to_dict() for run in run_records.to_records(connection, rows, messages=told)]
        _add(connection, rows, items, include)
    return {"items": items, "next_cursor": following}


def _search(
    connection: Connection,
    workspace: Workspace,
    wanted: Filter,
    text: str,
    limit: int,
    cursor: str | None,
) -> tuple[list[RunRow], str | None]:
    ids = []
    if wanted.experiment:
        found = workspaces.find_experiment(connection, workspace, wanted.experiment)
        if found is None:
            return [], None
        ids = [found.id]
    search = searching.Search(
        workspace.id,
        ids,
        [*_asked(wanted), *_read(text)],
        [_order(wanted.order_by)],
        wanted.archived,
        top_only=not wanted.include_children and not wanted.parent_id,
        statuses=wanted.statuses,
    )
    seqs, following = searching.page(connection, search, limit, cursor)
    return runs.listed(connection, seqs), following


def _read(text: str) -> list[Condition]:
    if len(text) > _MAX_TEXT:
        raise UserErrorException(f"a filter has at most {_MAX_TEXT} characters")
    found = parse_filter(text, RUNS)
    if len(found) > _MAX_CONDITIONS:
        raise UserErrorException(f"a filter has at most {_MAX_CONDITIONS} comparisons")
    return found


def _order(text: str) -> Any:
    name = text.strip().lstrip("-").partition(" ")[0]
    if "." not in name and name not in (*ORDERS, *RUNS.attributes, *RUNS.synonyms):
        raise UserErrorException(
            f"runs cannot be ordered by {name!r}{suggest(name, ORDERS)}",
            hint=f"choose one of {', '.join([*ORDERS, *_LOGGED])}; with '-' in front, the last "
            "first",
        )
    return parse_order(text, RUNS)


def _asked(wanted: Filter) -> list[Condition]:
    """The fields of a listing in the language of filters."""
    fields = {"type": wanted.type, "target": wanted.target, "parent_id": wanted.parent_id}
    found = [Condition(ATTRIBUTE, name, "=", value) for name, value in fields.items() if value]
    for entity, labels in ((TAG, wanted.tags), (PROPERTY, wanted.properties)):
        found += [
            Condition(entity, name, "IS NOT NULL" if value is None else "=", value)
            for name, value in labels.items()
        ]
    return found


def _add(
    connection: Connection,
    rows: list[RunRow],
    items: list[dict[str, Any]],
    include: Collection[str],
) -> None:
    seqs = [row.seq for row in rows]
    if METRICS in include:
        last = metrics.last_values(connection, seqs)
        for seq, item in zip(seqs, items, strict=True):
            item[METRICS] = {name: metrics.last_value(row) for name, row in last[seq].items()}
    if ARGUMENTS in include:
        given = runs.arguments(connection, seqs)
        for seq, item in zip(seqs, items, strict=True):
            item[ARGUMENTS] = given[seq]
