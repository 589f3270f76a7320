"""Waiting for a compute target, in Azure ML's words."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

from ...core.errors import ComputeTargetException
from ..console import echo, say

_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 2.0
_DOT_S = 5.0
_TERMINAL = ("Succeeded", "Failed", "Canceled")
_AT_REST = ("Running", "JobRunning", "Stopped")
_BROKEN = ("CreateFailed", "SetupFailed", "UserSetupFailed", "Unusable")


def provisioned(target: Any, show_output: bool, deleting: bool) -> None:
    """Until it is made, or gone."""
    if deleting:
        _gone(target, show_output)
        return
    output = _Output(show_output)

    def made() -> bool:
        state = target.provisioning_state
        if state == "Succeeded" and not target._is_ready():
            if target.problem or target.doing:
                output.scaling(f"Waiting: {target.problem or target.doing}")
            return False
        return state in _TERMINAL

    _until(target, output, made, None)
    if target.provisioning_state != "Succeeded":
        output.end()
        raise failed(target)
    output.line(f'Provisioning operation finished, operation "{target.provisioning_state}"')


def cluster(
    target: Any,
    show_output: bool,
    min_node_count: Optional[int],
    timeout_in_minutes: Optional[float],
    deleting: bool,
    called: str,
) -> None:
    """Until it is made and has as many nodes as it should, or the time is over."""
    if deleting:
        _gone(target, show_output)
        return
    output = _Output(show_output)
    deadline = None if timeout_in_minutes is None else time.monotonic() + 60 * timeout_in_minutes

    def enough() -> bool:
        if target.provisioning_state not in _TERMINAL:
            return False
        wanted = target.scale_settings.minimum_node_count
        wanted = wanted if min_node_count is None else int(min_node_count)
        ready = target._ready_nodes()
        if ready < wanted:
            told = target.problem or target.doing
            why = f" ({told})" if told else ""
            output.scaling(
                f"Waiting for cluster to scale. {ready} out of {wanted} nodes ready.{why}"
            )
        return ready >= wanted or target.provisioning_state != "Succeeded" or _errors(target)

    in_time = _until(target, output, enough, deadline)
    output.line(f"{called} wait for completion finished\n")
    if not in_time:
        _timed_out(target, output, called)
    elif target.provisioning_state != "Succeeded":
        raise failed(target)
    elif _errors(target) and not _has(target, min_node_count):
        raise reported(target, called)
    else:
        output.line("Minimum number of nodes requested have been provisioned")


def instance(target: Any, show_output: bool, deleting: bool) -> None:
    """Until it runs or is stopped, or gone."""
    if deleting:
        _gone(target, show_output)
        return
    output = _Output(show_output)

    def settled() -> bool:
        if target.problem and target.state not in (*_AT_REST, *_BROKEN):
            output.scaling(f"Waiting: {target.problem}")
        return target.state in (*_AT_REST, *_BROKEN)

    _until(target, output, settled, None)
    output.end()
    if target.state in _BROKEN:
        errors = "\n".join(_sentence(each) for each in target.status.errors or [])
        raise ComputeTargetException(
            f"Compute instance {target.name} is {target.state}:\n"
            f"{errors or target.problem or 'no reason was given'}",
            hint=f"wherry compute logs {target.name} shows what it did",
        )


def failed(target: Any) -> ComputeTargetException:
    errors = "\n".join(_sentence(each) for each in target.provisioning_errors)
    return ComputeTargetException(
        "Compute object provisioning polling reached non-successful terminal state, current "
        f"provisioning state: {target.provisioning_state}\n"
        f"Provisioning operation error:\n{errors or target.problem or 'unknown'}"
    )


def reported(target: Any, called: str) -> ComputeTargetException:
    errors = "\n".join(_sentence(each) for each in target.status.errors)
    return ComputeTargetException(f"There were errors reported from {called}:\n{errors}")


def _has(target: Any, min_node_count: Optional[int]) -> bool:
    wanted = target.scale_settings.minimum_node_count
    return bool(target._ready_nodes() >= (wanted if min_node_count is None else min_node_count))


def _errors(target: Any) -> bool:
    return bool(target.status.errors)


def _timed_out(target: Any, output: _Output, called: str) -> None:
    """Whoever asked for no output is told, too, where there is a reason."""
    output.line(
        "Wait timeout has been reached\n"
        f'Current provisioning state of {called} is "{target.provisioning_state}" and current '
        f'node count is "{target.status.current_node_count}"'
    )
    if target.problem:
        say(f"{target.name}: {target.problem}")


def _gone(target: Any, show_output: bool) -> None:
    output = _Output(show_output)

    def over() -> bool:
        return target.provisioning_state in ("Failed", "Canceled")

    try:
        _until(target, output, over, None)
    except ComputeTargetException as error:
        if not error.message.startswith("ComputeTargetNotFound"):
            raise
        output.line('Provisioning operation finished, operation "Succeeded"')
        return
    raise failed(target)


def _until(
    target: Any, output: _Output, done: Callable[[], bool], deadline: Optional[float]
) -> bool:
    """Ask again and again; whether it was done in time."""
    pause_s = _PAUSE_S
    while True:
        target.refresh_state()
        output.state(target._progress)
        if done():
            return True
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        time.sleep(pause_s if left is None else min(pause_s, left))
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


class _Output:
    """The state whenever it is another, a dot for every five seconds in between."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._state = ""
        self._scaling = ""
        self._last = time.monotonic()
        self._open = False

    def state(self, state: str) -> None:
        now = time.monotonic()
        if state != self._state:
            self._begin(state)
            self._state, self._last = state, now
        elif now - self._last >= _DOT_S:
            self._write(".")
            self._open, self._last = True, now

    def scaling(self, sentence: str) -> None:
        if sentence != self._scaling:
            self._scaling = sentence
            self._begin(sentence)

    def line(self, text: str) -> None:
        self._begin(text)
        self._write("\n")
        self._open = False

    def end(self) -> None:
        if self._open:
            self._write("\n")
            self._open = False

    def _begin(self, text: str) -> None:
        self._write(f"\n{text}" if self._open else text)
        self._open = True

    def _write(self, text: str) -> None:
        if self._wanted:
            echo(text)


def _sentence(error: Any) -> str:
    if isinstance(error, dict):
        inner = error.get("error") or error
        return str(inner.get("message") or inner) if isinstance(inner, dict) else str(inner)
    return str(error)
