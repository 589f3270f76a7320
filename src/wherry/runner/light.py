"""The C halves of a few standard modules: the same functions at a tenth of the import time.

A runner starts beside every command, so every import here is paid by every run. ``signal``,
``socket`` and ``json`` drag in ``enum``, ``re`` and more: together twice what Python itself
takes to start.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is one of the slow ones

if TYPE_CHECKING:
    import signal
    import socket
    from typing import Any, Optional, Type
else:
    try:
        import _signal as signal
        import _socket as socket
    except ImportError:
        import signal
        import socket

__all__ = ["become_subreaper", "dumps", "loads", "signal", "socket", "suppress"]

_PR_SET_CHILD_SUBREAPER = 36


def loads(text: str) -> Any:
    """``json.loads``."""
    if _scan is None:
        import json

        return json.loads(text)
    try:
        value, end = _scan(text, len(text) - len(text.lstrip()))
    except StopIteration:
        raise ValueError("not JSON") from None
    if text[end:].strip():
        raise ValueError("something follows the JSON")
    return value


def dumps(value: Any) -> str:
    """``json.dumps``."""
    if _encode is None:
        import json

        return json.dumps(value)
    return "".join(_encode(value, 0))


def become_subreaper() -> bool:
    """Have every orphan below this process become its child (Linux)."""
    try:
        return _prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0
    except (ImportError, OSError, AttributeError):
        return False


def _prctl(option: int, argument: int) -> int:
    try:
        import _ctypes

        library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this process
        address = _ctypes.dlsym(library, "prctl")
        return int(_ctypes.call_function(address, (option, argument, 0, 0, 0)))
    except (ImportError, AttributeError):
        import ctypes

        return int(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0))


class suppress:
    """``contextlib.suppress``."""

    def __init__(self, *kinds: Type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Optional[Type[BaseException]], *_details: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


class _Decoding:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {
        "NaN": float("nan"),
        "Infinity": float("inf"),
        "-Infinity": float("-inf"),
    }.__getitem__


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")


_scan: Any = None
_encode: Any = None
try:
    import _json

    _scan = _json.make_scanner(_Decoding())  # type: ignore[arg-type]  # any object will do
    _encode = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
except (ImportError, AttributeError, TypeError):
    _scan = _encode = None
