"""How long a run can hold its nodes, where that is certain: a pure function of its time limit.

The limit counts from the moment that the command runs. Before that lies the set-up, which may take
``SETUP_S`` where somebody counts on it; after it the command's last moments, and its outputs.
"""

from __future__ import annotations

from typing import Optional

SETUP_S = 60.0
STORING_S = 60.0


def longest_s(limit_s: Optional[float], grace_s: float) -> Optional[float]:
    """From the moment that it gets its nodes; None where it may take any time."""
    return None if limit_s is None else SETUP_S + limit_s + grace_s + STORING_S


def until(
    limit_s: Optional[float],
    grace_s: float,
    given: float,
    begun: Optional[float],
    now: float,
) -> Optional[float]:
    """When a run that was ``given`` its nodes then, and has ``begun`` or not, has ended for
    certain; None where nobody knows, also of one that should have begun or ended by now.
    """
    longest = longest_s(limit_s, grace_s)
    if longest is None:
        return None
    if begun is None:
        return given + longest if now <= given + SETUP_S else None
    end = begun + longest - SETUP_S
    return end if now <= end else None
