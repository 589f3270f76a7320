"""Waiting for a run, with its output shown as it comes, in Azure ML's words."""

from __future__ import annotations

from json import dumps
from typing import Any, Dict

from ..core.errors import ExperimentExecutionException
from .console import LogText, echo, say
from .details import failure
from .handle import BUILD_LOG, EARLY, STD_LOG, TERMINAL

_WAIT_S = 30.0


def wait(run: Any) -> Dict[str, Any]:
    """The record of the run once it has ended."""
    try:
        return _ended(run)
    except KeyboardInterrupt:
        say(f"run {run.id} goes on; only the waiting has ended")
        raise


def show(run: Any) -> Dict[str, Any]:
    """The same, while its output is written to stdout."""
    url = run.get_portal_url()
    echo(f"RunId: {run.id}\nWeb View: {url}\n")
    try:
        _show_waiting(run)
        _show_log(run)
        record = _ended(run)
    except KeyboardInterrupt:
        raise ExperimentExecutionException(
            "The output streaming for the run interrupted. "
            "But the run is still executing on the compute target.",
            hint=f"cancel it with run.cancel() or: wherry job cancel {run.id}",
        ) from None
    echo(f"\nExecution Summary\n=================\nRunId: {run.id}\nWeb View: {url}\n")
    return record


def conclude(record: Dict[str, Any], *, shown: bool, raise_on_error: bool) -> None:
    """Raise for a failed run, or print its error where that is asked for."""
    if record["status"] != "Failed":
        return
    problem = failure(record, tail=not shown)
    if raise_on_error:
        raise problem
    if shown:
        echo(f"\nError:\n{dumps(problem.error_details, indent=4)}\n")


def _ended(run: Any) -> Dict[str, Any]:
    record: Dict[str, Any] = run._record  # maybe none yet: whoever waits is told all the same
    while record.get("status") not in TERMINAL:
        record = run._await(record.get("status", ""), _WAIT_S, until="end")
    return record


def _show_waiting(run: Any) -> None:
    """Say what the run waits for, when it has to wait for more than a second."""
    record = run._known()
    told = ""
    while record["status"] in EARLY:
        seen = record["status"]
        if seen == "Preparing":
            _show_build(run)
            return
        record = run._await(seen, 1.0)
        message = record.get("message") or ""
        if record["status"] == seen and message and message != told:
            told = message
            echo(f"{seen}: {message}\n")


def _show_build(run: Any) -> None:
    """What is said while the environment is made, if it is."""
    text = LogText()
    shown = False

    def show(data: bytes) -> None:
        nonlocal shown
        if not shown:
            echo(_heading(BUILD_LOG))
        shown = True
        echo(text.feed(data))

    run.stream_logs(show, name=BUILD_LOG)
    echo(text.end())


def _heading(name: str) -> str:
    return f"\nStreaming {name}\n{'=' * (len(name) + 10)}\n\n"


def _show_log(run: Any) -> None:
    echo(_heading(STD_LOG))
    text = LogText()
    run.stream_logs(lambda data: echo(text.feed(data)))
    echo(text.end())
