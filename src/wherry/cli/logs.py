"""``wherry logs``: what a run has printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import click

from ..core.errors import UserErrorException
from ..sdk.handle import BUILD_LOG, STD_LOG, TERMINAL
from .command import Command, argument_for_run, pass_session, whole_number_option
from .session import Session

if TYPE_CHECKING:
    from ..sdk.run import Run

_GUESS = 200
_PROCESS = "user_logs/std_log_process_"


@click.command(
    cls=Command,
    examples=[
        "wherry logs",
        "wherry logs -f 3f2a9c01",
        "wherry logs -n 20 baseline",
        "wherry logs 3f2a9c01 > output.txt",
        "wherry logs --build",
        "wherry logs --process 3 -f",
    ],
)
@argument_for_run(required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@whole_number_option("-n", "--lines", help="Only the last lines.")
@click.option("--build", is_flag=True, help="What was said while its environment was made.")
@whole_number_option("--process", help="Of a distributed run: the process of this rank.")
@pass_session
def logs(
    session: Session,
    run_id: Optional[str],
    follow: bool,
    lines: Optional[int],
    build: bool,
    process: Optional[int],
) -> None:
    """Show what a run has printed.

    Without an id it is the newest run. The output comes as it was written, both streams in order.
    With --follow the exit code is that of the run: 0 when it completed, 3 when it failed or was
    canceled.
    """
    from . import follow as following

    run = session.run(run_id)
    name = BUILD_LOG if build else STD_LOG
    if process is not None:
        name = _of_process(run, process)
    size = log_size(run, name)
    offset = tail_offset(run, size or 0, lines, name) if lines is not None else 0
    if name != STD_LOG or not follow:
        if size is None and not follow:
            session.say(f"run {run.id} {_nothing(run.get_status(), build)}")
            return
        output = following.Output()
        run.stream_logs(output.write, name=name, follow=follow, offset=offset)
        output.end_line()
        return
    if not run_id:
        session.say(f"following run {run.id}")
    record = following.watch(session, run, offset=offset)
    following.conclude(session, record, shown=True)


def _of_process(run: Run, rank: int) -> str:
    name = f"{_PROCESS}{rank}.txt"
    count = sum(str(file["path"]).startswith(_PROCESS) for file in run.list_files())
    if rank < count or (not count and run.get_status() not in TERMINAL):
        return name
    known = f"its processes are 0 to {count - 1}" if count else "it is one process, without ranks"
    raise UserErrorException(f"run {run.id} has no process {rank}", hint=known)


def _nothing(status: str, build: bool) -> str:
    if status not in TERMINAL:
        return f"has {'built' if build else 'printed'} nothing yet"
    return "built nothing: no environment had to be made for it" if build else "printed nothing"


def log_size(run: Run, name: str = STD_LOG) -> Optional[int]:
    """In bytes; None where there is no log."""
    sizes = [int(file["size"]) for file in run.list_files() if file["path"] == name]
    return sizes[0] if sizes else None


def tail_offset(run: Run, size: int, lines: int, name: str = STD_LOG) -> int:
    """Where the last lines begin; reads no more of the end than it must."""
    if not lines or not size:
        return size
    span = _GUESS * (lines + 1)
    while True:
        start = max(0, size - span)
        text = bytearray()
        run.stream_logs(text.extend, name=name, follow=False, offset=start)
        found = _last_lines(bytes(text), lines)
        if found is not None or start == 0:
            return start + (found or 0)
        span *= 8


def _last_lines(text: bytes, lines: int) -> Optional[int]:
    """Where the last lines of the text begin; None where it has not so many."""
    place = len(text) - 1 if text.endswith(b"\n") else len(text)
    for _ in range(lines):
        place = text.rfind(b"\n", 0, place)
        if place < 0:
            return None
    return place + 1
