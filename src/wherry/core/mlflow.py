"""MLflow's words for what Wherry has its own."""

from __future__ import annotations

from typing import Dict, List

from .errors import UserErrorException
from .lifecycle import Status

SCHEDULED, RUNNING, FINISHED, FAILED, KILLED = (
    "SCHEDULED",
    "RUNNING",
    "FINISHED",
    "FAILED",
    "KILLED",
)
_UNDER_WAY = (Status.RUNNING, Status.FINALIZING, Status.NOT_RESPONDING)
_ENDS = {Status.COMPLETED: FINISHED, Status.FAILED: FAILED, Status.CANCELED: KILLED}


def status_of(stored: str) -> str:
    """
    >>> status_of("Completed")
    'FINISHED'
    """
    status = Status(stored)
    return _ENDS.get(status) or (RUNNING if status in _UNDER_WAY else SCHEDULED)


_STORED: Dict[str, List[str]] = {}
for _status in Status:
    _STORED.setdefault(status_of(_status.value), []).append(_status.value)
    _STORED.setdefault(_status.value, [_status.value])


def stored_statuses(word: str) -> List[str]:
    """All that a word of MLflow's, or of Wherry's, stands for.

    >>> stored_statuses("RUNNING")
    ['Running', 'Finalizing', 'NotResponding']
    """
    try:
        return _STORED[word]
    except KeyError:
        raise UserErrorException(
            f"{word!r} is not a status", hint=f"statuses are {', '.join(_STORED)}"
        ) from None
