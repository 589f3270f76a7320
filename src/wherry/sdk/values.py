"""What scripts log, as JSON can hold it; numpy, torch and pandas are taken as they come."""

from __future__ import annotations

from json import JSONEncoder
from typing import Any, Dict, Iterator, List, Mapping, Optional

from ..core.errors import UserErrorException

MAX_LINE = 4 * 2**20
_SPLIT_LINE = 2**20
_PLAIN = frozenset({float, int, str, bool, type(None)})
_encode = JSONEncoder(separators=(",", ":"), check_circular=False).encode


def plain(value: Any) -> Any:
    """Numbers, text, lists and dicts, by the methods that arrays and scalars share."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(item) for item in value]
    if isinstance(value, (str, int, float)):
        return value
    for method in ("tolist", "numpy", "item"):
        convert = getattr(value, method, None)
        if callable(convert):
            return plain(convert())
    if hasattr(value, "__float__"):
        return float(value)
    return str(value)


def scalar(value: Any) -> Any:
    """Like ``plain``, and an array of one element is that element."""
    value = plain(value)
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def texts(kind: str, labels: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Tags or properties as text."""
    if labels is not None and not isinstance(labels, Mapping):
        raise UserErrorException(f"{kind} must be a dict, not {type(labels).__name__}")
    return {str(key): "" if value is None else str(value) for key, value in (labels or {}).items()}


def lines(entry: Dict[str, Any]) -> Iterator[bytes]:
    """The entry as spool lines: one, or as many as keep each of them small.

    Lists and tables are joined end to end by whoever reads them, so parts are as good as the whole.
    """
    line = _encode(entry).encode() + b"\n"
    if len(line) <= _SPLIT_LINE:
        yield line
        return
    parts = _halves(entry["k"], entry["v"])
    if parts is not None:
        for part in parts:
            yield from lines({**entry, "v": part})
    elif len(line) <= MAX_LINE:
        yield line
    else:
        raise ValueError(f"one value of {len(line)} bytes is too large")


def _halves(kind: str, value: Any) -> Optional[List[Any]]:
    if kind == "list" and len(value) > 1:
        middle = len(value) // 2
        return [value[:middle], value[middle:]]
    if kind == "table" and isinstance(value, dict):
        longest = max(
            (len(cells) for cells in value.values() if isinstance(cells, list)), default=0
        )
        if longest > 1 and all(isinstance(cells, list) for cells in value.values()):
            middle = longest // 2
            return [
                {column: cells[:middle] for column, cells in value.items()},
                {column: cells[middle:] for column, cells in value.items() if cells[middle:]},
            ]
    return None
