"""Exit records and errors as others wrote them, made into what can be kept and shown.

A script can write to its own folder and speak with its own token: what comes from there must end
its run, whatever it looks like, and must harm no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from wherry.core.lifecycle import ExitRecord
from wherry.core.text import clean

_MAX_TEXT = 20_000
_MAX_ITEMS = 100
_MAX_SENTENCE = 1000
_MAX_DEPTH = 4
_LAST_SECOND = 253402300799  # of the year 9999


def exit_record(fields: Mapping[str, Any]) -> ExitRecord:
    """What is of the wrong kind counts as not said."""
    setup_error = fields.get("setup_error")
    return ExitRecord(
        exit_code=_whole(fields.get("exit_code")),
        signal=_whole(fields.get("signal")),
        canceled=fields.get("canceled") is True,
        timed_out=fields.get("timed_out") is True,
        out_of_memory=fields.get("out_of_memory") is True,
        setup_error=None if setup_error is None else clean(str(setup_error), _MAX_TEXT),
        error=error_fields(fields.get("error")),
        lost=fields.get("lost") is True,
        unstarted=fields.get("unstarted") is True,
        no_room=fields.get("no_room") is True and setup_error is not None,
        started_at=_moment(fields.get("started_at")),
        ended_at=_moment(fields.get("ended_at")),
        warnings=_sentences(fields.get("warnings")),
    )


def error_fields(error: object) -> dict[str, Any] | None:
    """An error as a small object of plain values."""
    if not isinstance(error, Mapping) or not error:
        return None
    kept: dict[str, Any] = _plain(error, _MAX_DEPTH)
    return kept


def _plain(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth and isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {clean(str(key), _MAX_TEXT): _plain(item, depth - 1) for key, item in items}
    if depth and isinstance(value, list):
        return [_plain(item, depth - 1) for item in value[:_MAX_ITEMS]]
    return "…" if isinstance(value, (Mapping, list)) else clean(str(value), _MAX_TEXT)


def _whole(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
    return value if fits and isinstance(value, int) else None


def _sentences(value: object) -> list[str]:
    told = value if isinstance(value, (list, tuple)) else []
    return [clean(str(each), _MAX_SENTENCE) for each in told[:_MAX_ITEMS]]


def _moment(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= _LAST_SECOND else None
