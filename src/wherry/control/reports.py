"""What runners and clients send while a run goes on: reports, log bytes, spooled metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

from sqlalchemy import Connection

from wherry.core.errors import ConflictError, UserErrorException
from wherry.core.lifecycle import Stage, Status
from wherry.core.metrics import PARAM, TAG, Logged, parse_lines
from wherry.core.targets import name_of
from wherry.core.text import clean
from wherry.store import attempts, families, metrics, run_labels, runs, streams

from . import run_logs, tracked_runs
from .clients import heard
from .exits import exit_record
from .plane import Plane
from .settle import settle

_MAX_NAME_BYTES = 2000


def report(plane: Plane, attempt_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the runner's word and act on it at once. The reply says whether to cancel.

    ``log``, a piece with its offset, is kept before the rest is done. Who says its ``ports`` is
    told those of all nodes, None of one that is not ready.
    """
    changes = _changes(fields)
    log = fields.get("log")
    if log:
        with plane.database.read() as connection:
            run_id = attempts.get(connection, attempt_id).run_id
        append_log(plane, run_id, attempt_id, log["offset"], log["data"])
    ports = fields.get("ports")
    with plane.write() as connection:
        attempt = attempts.get(connection, attempt_id)
        changes["heartbeat_at"] = plane.now()
        if attempt.ended_at is None:
            plane.hearing.heard(attempt_id)
        if attempt.exit is not None:
            changes.pop("exit", None)
        settled = settle(plane, connection, attempt, changes)
        met = attempts.members(connection, attempt.run_id, attempt.number) if ports else []
    ended = settled.status is Status.QUEUED or (settled.status and settled.status.terminal)
    if ended or settled.others:
        plane.hint(attempt.target)
    reply: dict[str, Any] = {"cancel": settled.cancel_requested}
    return {**reply, "ports": [each.meeting for each in met]} if ports else reply


def append_log(
    plane: Plane,
    run_id: str,
    attempt_id: str,
    offset: int,
    *pieces: bytes,
    name: str = run_logs.STD_LOG,
) -> int:
    if offset == 0:  # a log that is begun; what comes later finds it, or a gap
        with plane.database.read() as connection:
            runs.get(connection, run_id)
    size = plane.logs.append(run_logs.key(run_id, attempt_id, name), offset, *pieces)
    plane.changed(run_id)
    return size


def append_spool(plane: Plane, run_id: str, stream: str, offset: int, data: bytes) -> int:
    """Take each whole line once, whatever is sent again."""
    if data and not data.endswith(b"\n"):
        raise UserErrorException("a spool is sent in whole lines")
    with plane.write() as connection:
        run = runs.get(connection, run_id, lock=True)
        known = streams.take(connection, run_id, stream, offset, len(data))
        entries = parse_lines(data[known:])
        for target_id, group in _by_run(run_id, entries):
            if target_id != run_id and not families.descends_from(connection, target_id, run_id):
                continue
            _store(connection, target_id, list(group))
        heard(plane, connection, run)
    plane.changed(run_id)
    return offset + len(data)


def heartbeat(plane: Plane, run_id: str) -> None:
    """A client that drives its own run is alive."""
    with plane.write() as connection:
        run = runs.get(connection, run_id, lock=True)
        if run.target is not None:
            raise ConflictError(f"run {run_id} is driven by target {name_of(run.target)!r}")
        heard(plane, connection, run)


def _changes(fields: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if fields.get("stage") is not None:
        changes["stage"] = Stage(fields["stage"]).value
        changes["detail"] = clean(str(fields.get("message") or ""))
    if fields.get("ports"):
        changes["meeting"] = list(fields["ports"])
    if fields.get("exit") is not None:
        changes["exit"] = dict(exit_record(fields["exit"]).__dict__)
    return changes


def _by_run(run_id: str, entries: Iterable[Logged]) -> Iterable[tuple[str, Iterable[Logged]]]:
    def target(entry: Logged) -> str:
        return clean(str(entry.run_id or run_id))  # a script may have written anything

    return groupby(sorted(entries, key=target), key=target)


def _store(connection: Connection, run_id: str, entries: list[Logged]) -> None:
    run = runs.get(connection, run_id)
    labels = [entry for entry in entries if entry.kind in (TAG, PARAM)]
    tags = {entry.name[:255]: str(entry.value) for entry in labels if entry.kind == TAG}
    tracked_runs.set_tags(connection, run, tags)
    for entry in labels:
        if entry.kind == PARAM:  # one that has another value already keeps it, as in MLflow
            with suppress(ConflictError):
                params = {entry.name[:255]: clean(str(entry.value))}
                run_labels.change(connection, run, run_labels.PARAM, params)
    points = [_named(entry) for entry in entries if entry.kind not in (TAG, PARAM)]
    metrics.append(connection, run, points)


def _named(entry: Logged) -> Logged:
    """With a name that fits into an index of PostgreSQL."""
    if len(entry.name) * 4 <= _MAX_NAME_BYTES:
        return entry
    name = entry.name.encode()[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    return dataclasses.replace(entry, name=name)
