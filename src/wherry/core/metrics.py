"""Metrics as scripts log them and as Azure ML shows them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .text import clean

SCALAR, LIST, ROW, TABLE, IMAGE = "scalar", "list", "row", "table", "image"
TAG, PARAM = "tag", "param"
KINDS = frozenset({SCALAR, LIST, ROW, TABLE, IMAGE, TAG, PARAM})
MAX_NAME = 1000

Point = Mapping[str, Any]


@dataclass(frozen=True)
class Logged:
    """One call of ``run.log*`` as it came through a spool."""

    at: float
    kind: str
    name: str
    value: Any
    step: Optional[int] = None
    run_id: Optional[str] = None


def parse_lines(data: bytes) -> List[Logged]:
    """The entries of whole spool lines. What cannot be read is left out: logging never fails."""
    found = (_parse(line) for line in data.split(b"\n") if line.strip())
    return [entry for entry in found if entry is not None]


def shape(kind: str, values: Sequence[Any]) -> Any:
    """What ``get_metrics`` returns for one name.

    A scalar logged once is a scalar, logged again a list; a row is a dict, rows are a dict of
    lists; lists and tables are joined end to end.
    """
    if kind == LIST:
        return [item for value in values for item in _as_list(value)]
    if kind in (ROW, TABLE) and all(isinstance(value, Mapping) for value in values):
        if kind == ROW and len(values) == 1:
            return dict(values[0])
        return _columns(values)
    return values[0] if len(values) == 1 else list(values)


def _parse(line: bytes) -> Optional[Logged]:
    try:
        entry = json.loads(line)
        kind, name = entry["k"], entry["n"]
        step = entry.get("s")
        if kind not in KINDS or not isinstance(name, str) or not name:
            return None
        return Logged(
            at=float(entry["t"]),
            kind=kind,
            name=clean(name, MAX_NAME),
            value=_clean_value(entry["v"]),
            step=int(step) if step is not None else None,
            run_id=entry.get("r"),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _clean_value(value: Any) -> Any:
    return clean(value) if isinstance(value, str) else value


def _as_list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else [value]


def _columns(values: Iterable[Mapping[str, Any]]) -> Dict[str, List[Any]]:
    columns: Dict[str, List[Any]] = {}
    for value in values:
        for column, cell in value.items():
            columns.setdefault(column, []).extend(_cells(cell))
    return columns


def _cells(cell: Union[Any, List[Any]]) -> List[Any]:
    return cell if isinstance(cell, list) else [cell]
