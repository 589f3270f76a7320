"""When a JupyterLab was last used, by what it says of itself: a pure function."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Iterable, Mapping, Optional

IDLE = "idle"


def in_use(kernels: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a cell is being executed, however silent, or somebody is connected to a kernel."""
    return any(
        str(kernel.get("execution_state") or IDLE) not in (IDLE, "dead") or _connected(kernel)
        for kernel in kernels
    )


def _connected(kernel: Mapping[str, Any]) -> bool:
    """JupyterLab counts below zero where somebody was gone before they were connected."""
    count = kernel.get("connections")
    return isinstance(count, int) and count > 0


def last_used(*said: Any) -> Optional[datetime]:
    """The latest moment that any of these speak of."""
    moments = [_moment(each) for found in said for each in _each(found)]
    return max((moment for moment in moments if moment is not None), default=None)


def _each(found: Any) -> Iterable[Any]:
    return found if isinstance(found, list) else [found]


def _moment(said: Any) -> Optional[datetime]:
    text = said.get("last_activity") if isinstance(said, Mapping) else None
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
