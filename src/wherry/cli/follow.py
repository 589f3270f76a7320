"""Watching a run: its output to stdout as it comes, then how it ended."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Dict, Iterator

from ..sdk.client import quote
from ..sdk.handle import BUILD_LOG, EARLY, TERMINAL
from ..sdk.run import Run
from .ending import RUN_FAILED, Detached, Failure
from .run_view import duration, verdict
from .session import Session, reading

_PATIENCE_S = 1.0
_SLICE_S = 30.0


def watch(
    session: Session, run: Run, *, to_stderr: bool = False, offset: int = 0
) -> Dict[str, Any]:
    """The record of the run at its end, its output shown meanwhile. Ctrl-C ends the watching."""
    stream = Output(to_stderr=to_stderr)
    with _detachable(run, stream, "-f"):
        _wait_for_turn(session, run)
        run.stream_logs(stream.write, offset=offset)
        stream.end_line()
        return ended(session, run)


def watch_build(session: Session, run: Run) -> Dict[str, Any]:
    """The same, of what is said while an environment is made: stdout is for the answer."""
    stream = Output(to_stderr=True)
    with _detachable(run, stream, "-f --build"):
        if not session.quiet:
            run.stream_logs(stream.write, name=BUILD_LOG)
        return ended(session, run)


def ended(session: Session, run: Run) -> Dict[str, Any]:
    record = run.record
    while record["status"] not in TERMINAL:
        record = _next(session, run.id, record["status"], _SLICE_S)
    return record


def conclude(session: Session, record: Dict[str, Any], *, shown: bool) -> None:
    """Say how it ended; a failure or a cancel ends the program with its exit code.

    ``shown``: its output has just gone over the screen and need not be repeated.
    """
    if record["status"] == "Completed":
        session.say(f"run {record['id']} completed in {duration(record)}")
        if record.get("message"):
            session.say(f"note: {record['message']}")
        return
    build = "--build " if _failed_to_build(record) else ""
    hint = f"all of its output: wherry logs {build}{record['id']}"
    raise Failure(
        verdict(session, record, tail=not shown),
        hint=None if record["status"] == "Canceled" else hint,
        exit_code=RUN_FAILED,
    )


def seen_on_stdout() -> bool:
    """Whether who reads the errors has the output, too: not where only that goes to a file."""
    return sys.stdout.isatty() or not sys.stderr.isatty()


def _failed_to_build(record: Dict[str, Any]) -> bool:
    """Whether the build of its environment is all that it has to show."""
    environment = (record.get("spec") or {}).get("environment") or {}
    return record.get("reason") == "SetupFailed" and bool(environment.get("specification"))


class Output:
    """Where the bytes of a log go, as they are."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        stream = sys.stderr if to_stderr else sys.stdout
        self._stream: Any = getattr(stream, "buffer", stream)
        self._last = b"\n"
        self.on_terminal = stream.isatty()

    def write(self, data: bytes) -> None:
        self._last = data[-1:] or self._last
        with reading():
            self._stream.write(data)
            self._stream.flush()

    def end_line(self) -> None:
        """On a screen, what comes next begins on a line of its own; a file stays as it is."""
        if self.on_terminal and self._last != b"\n":
            self.write(b"\n")


def _wait_for_turn(session: Session, run: Run) -> None:
    """Say what the run waits for, when it has to wait."""
    seen, told = str(run.record["status"]), ""
    while seen in EARLY:
        record = _next(session, run.id, seen, _PATIENCE_S)
        message = str(record.get("message") or "")
        if record["status"] == seen and message != told:
            told = message
            session.say(f"{seen}: {message}")
        seen = record["status"]


def _next(session: Session, run_id: str, seen: str, timeout_s: float) -> Dict[str, Any]:
    """The record once the status is not ``seen`` any more, or the time is up."""
    path = f"/runs/{quote(run_id)}/wait"
    answer: Dict[str, Any] = session.client.wait(path, {"seen": seen}, timeout_s=timeout_s)
    return answer


@contextmanager
def _detachable(run: Run, stream: Output, options: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        stream.end_line()
        again, end = f"wherry logs {options} {run.id}", f"wherry job cancel {run.id}"
        width = max(len(again), len(end))
        raise Detached(
            f"\nrun {run.id} goes on; only the watching has ended\n\n"
            f"  {again:{width}}   watch it again\n"
            f"  {end:{width}}   end it"
        ) from None
