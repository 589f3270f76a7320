"""Runs as they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core import records
from wherry.core.lifecycle import CANCEL_REQUESTED, TERMINAL, Status
from wherry.core.targets import name_of

from . import run_labels
from .run_labels import PARAM, PROPERTY, TAG
from .tables import runs


def to_records(
    connection: Connection,
    rows: Sequence[Row[Any]],
    *,
    spec: bool = False,
    messages: Sequence[str] | None = None,
) -> list[records.Run]:
    """``messages`` are told instead of those that are stored."""
    found = run_labels.of(connection, [row.seq for row in rows])
    told = messages or [row.message for row in rows]
    return [
        _to_record(
            row,
            message,
            [found.get((row.seq, kind), {}) for kind in (TAG, PROPERTY, PARAM)],
            spec,
        )
        for row, message in zip(rows, told, strict=True)
    ]


def new_record(
    fields: Mapping[str, Any],
    workspace: str,
    experiment: str,
    tags: Mapping[str, str],
    properties: Mapping[str, str],
) -> records.Run:
    """The run that was just added, without reading it again."""
    blank = dict.fromkeys(column.name for column in runs.columns)
    row = SimpleNamespace(**{**blank, "message": "", "attempt_count": 0, **fields})
    row.workspace, row.experiment = workspace, experiment
    named = [dict(sorted(tags.items())), dict(sorted(properties.items())), {}]
    return _to_record(row, row.message, named, spec=True)


def shown_status(row: Any) -> str:
    if row.cancel_requested_at is not None and Status(row.status) not in TERMINAL:
        return CANCEL_REQUESTED
    return str(row.status)


def _to_record(
    row: Any, message: str, labelled: Sequence[dict[str, str]], spec: bool
) -> records.Run:
    tags, properties, params = labelled
    return records.Run(
        id=row.id,
        number=row.number,
        workspace=row.workspace,
        experiment=row.experiment,
        parent_id=row.parent_id,
        root_id=row.root_id,
        type=row.type,
        display_name=row.display_name,
        description=row.description,
        status=shown_status(row),
        reason=row.reason,
        message=message,
        error=row.error,
        target=name_of(row.target) if row.target else None,
        snapshot_id=row.snapshot_id,
        attempt=row.attempt_count,
        submitted_by=row.submitted_by,
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        archived_at=row.archived_at,
        tags=tags,
        properties=properties,
        params=params,
        spec=row.spec if spec else None,
    )
