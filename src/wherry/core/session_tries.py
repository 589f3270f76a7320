"""How often a session that ends by itself is begun again, and when: pure functions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Optional

from .autoscale import backoff_s

TRIES = 3
"""So many sessions in a row that failed, and no more are tried by themselves."""
STEADY = timedelta(minutes=10)
"""Having lived for so long, a session has not failed to come up: its end is the first one again."""


def failures_with(before: int, started_at: Optional[datetime], ended_at: Optional[datetime]) -> int:
    """Counting one more, which lived from then to then."""
    return 1 if lived(started_at, ended_at) else before + 1


def lived(started_at: Optional[datetime], until: Optional[datetime]) -> bool:
    return started_at is not None and until is not None and until - started_at >= STEADY


def again_at(failures: int, ended_at: datetime) -> Optional[datetime]:
    """When the next one may begin; None where there is none."""
    if failures >= TRIES:
        return None
    pause = backoff_s(failures) if failures else 0.0
    return ended_at + timedelta(seconds=pause)
