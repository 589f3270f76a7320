"""How an end is told: one sentence for people, and the error that programs read."""

from __future__ import annotations

import signal
from typing import Any, Dict, Optional, Tuple

from .lifecycle import ExitRecord, Reason
from .sizes import format_bytes

_QUEUES_AGAIN = (Reason.PREEMPTED, Reason.NODE_UNUSABLE)


def describe(
    reason: Optional[Reason],
    exit: Optional[ExitRecord],
    *,
    detail: str = "",
    limit_s: object = None,
    interpreter: str = "",
    environment: str = "",
) -> Tuple[str, Optional[Dict[str, Any]]]:
    """What is said of the end, warnings included, and the error (None for success or cancel).

    It ran in an ``interpreter`` that was there, or in an ``environment`` that was made for it.
    """
    sentence = _sentence(reason, exit, detail, limit_s)
    sentence += _remedy(reason, exit, interpreter, environment)
    message = "; ".join([*filter(None, [sentence]), *(exit.warnings if exit is not None else ())])
    if reason in (None, Reason.SUCCEEDED, Reason.CANCELED, *_QUEUES_AGAIN):
        return message, None
    error: Dict[str, Any] = dict(exit.error) if exit is not None and exit.error else {}
    error.update(code=reason.value if reason else "Failed", message=sentence)
    if exit is not None and exit.exit_code is not None:
        error["exit_code"] = exit.exit_code
    if exit is not None and exit.signal:
        error["signal"] = signal_name(exit.signal)
    return message, error


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _sentence(
    reason: Optional[Reason], exit: Optional[ExitRecord], detail: str, limit_s: object
) -> str:
    cause = _cause(exit)
    if reason is Reason.SUCCEEDED or reason is None:
        return ""
    if reason is Reason.CANCELED:
        return "canceled"
    if reason is Reason.TIME_LIMIT:
        return f"ran longer than its limit of {limit_s} s and was ended"
    if reason is Reason.OUT_OF_MEMORY:
        return "ran out of memory" + cause + _held_to(exit)
    if reason is Reason.SIGNAL and exit is not None and exit.signal:
        return f"killed by {signal_name(exit.signal)}" + cause
    if reason is Reason.EXIT_CODE and exit is not None:
        return f"exited with code {exit.exit_code}" + cause
    if reason is Reason.SETUP_FAILED and exit is not None:
        return f"could not be started: {exit.setup_error}"
    if reason is Reason.LAUNCH_REFUSED:
        return f"the target refused to start it: {detail}"
    if reason is Reason.RUNNER_LOST:
        return _lost(exit, detail)
    if reason is Reason.PREEMPTED:
        return f"{detail}; it starts again with what it has saved"
    if reason is Reason.NODE_UNUSABLE:
        full = exit.setup_error if exit is not None else None
        told = f"its node could not start it ({full})" if full else detail
        return f"{told}; nothing of it was executed, and it waits for another start"
    if reason is Reason.CLIENT_LOST:
        return "the program that logged this run was not heard of again"
    return detail or "failed"


def _held_to(exit: Optional[ExitRecord]) -> str:
    """What it might have, where it was held to that, and what helps."""
    held = (exit.error or {}).get("memory_bytes") if exit is not None else None
    if not isinstance(held, int) or held <= 0:
        return ""
    return f"; it may use {format_bytes(held)}: ask for more, or let it use less"


def _lost(exit: Optional[ExitRecord], detail: str) -> str:
    if exit is not None and exit.unstarted:
        return "its runner was killed before the command was started; nothing of it was executed"
    known = str((exit.error or {}).get("message") or "") if exit is not None else ""
    if known:
        return f"{known}, and it left no exit record"
    told = f" ({detail})" if detail else ""
    return (
        "its runner ended without leaving an exit record: "
        f"it was killed from outside or the machine stopped{told}"
    )


def _remedy(
    reason: Optional[Reason], exit: Optional[ExitRecord], interpreter: str, environment: str
) -> str:
    """What helps with the two failures that nearly everyone meets on the first day."""
    error = exit.error if exit is not None and exit.error else {}
    exception = str(error.get("exception") or "")
    if reason is not Reason.EXIT_CODE:
        return ""
    if exception.startswith("ModuleNotFoundError:") and interpreter:
        return (
            f"; it ran in {interpreter}: --env names another Python, --environment has packages"
            " installed"
        )
    if exception.startswith("ModuleNotFoundError:") and environment:
        return f"; environment {environment!r} does not have it: add the package that it is in"
    if exception.startswith("FileNotFoundError:") and "'/" not in exception:
        return "; a run sees the files of its snapshot, without those that ignore files name"
    return ""


def _cause(exit: Optional[ExitRecord]) -> str:
    error = exit.error if exit is not None and exit.error else {}
    exception = error.get("exception") or error.get("detail")
    if not exception:
        return ""
    place = f" ({error['file']}, line {error.get('line', '?')})" if error.get("file") else ""
    return f": {exception}{place}"
