"""Drills on a clock that is set while runs go on: by hours and years, forward and back.

The machine's own clock stays as it is. A small library, preloaded into the server, the runners and
the scripts, adds to the time of day whatever a file says; the clocks that nobody sets it leaves.
"""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos import clusters
from chaos.books import all_runs
from chaos.workload import Workload, insist
from chaos.world import Stage, Unavailable, send, wait_until

_HOUR, _YEAR = 3600, 365 * 86400
_JUMPS = (_HOUR, -_HOUR, _YEAR, -_YEAR, 90, -90)


@contextmanager
def own_clock(folder: Path) -> Iterator[Stage]:
    compiler = shutil.which("cc")
    library, shift = folder / "clock.so", folder / "clock"
    if compiler is None:
        raise Unavailable("there is no C compiler to make a clock with")
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    _set(shift, 0)
    yield Stage({"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(shift)})


@contextmanager
def own_clock_and_slots(folder: Path) -> Iterator[Stage]:
    with own_clock(folder) as clock, clusters.slots(folder) as slots:
        yield Stage({**clock.variables, **slots.variables})


def set_clock(work: Workload, rounds: int) -> None:
    """No run ends early, none waits for the clock to catch up, none reaches its time limit."""
    shift = work.world.folder / "clock"
    for number in range(rounds):
        _, entry = work.submit(count=30, pause_s=0.03)
        wait_until(work.world.runner_pids, "the start of a runner")
        time.sleep(work.chance.uniform(0, 0.5))
        _set(shift, _JUMPS[number % len(_JUMPS)])
        if number % 2:  # then another runner watches the script, and its limit
            entry.may_be_lost = True
            for pid in work.world.runner_pids():
                send(pid, signal.SIGKILL)
        work.submit(count=3)
        work.settle()
    reasons = {run.record["reason"] for run in insist(all_runs)}
    assert reasons <= {"Succeeded", "RunnerLost"}, f"ended for {reasons}"


def set_clock_of_cluster(work: Workload, rounds: int) -> None:
    """The same on nodes that come and go: none stays until the clock has caught up."""
    with clusters.cluster(work):
        set_clock(work, rounds)


def _set(place: Path, seconds: int) -> None:
    """In place: the library has the file mapped."""
    with place.open("r+b" if place.exists() else "wb") as file:
        file.write(struct.pack("l", seconds))
