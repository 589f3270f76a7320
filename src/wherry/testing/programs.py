"""Small programs for the driver contract: real processes on a machine, threads in memory.

On a machine this file is itself the script: ``python -c <this text> NAME ARGUMENT...``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

BEAT_S = 0.02


class Process:
    """A real process, with the face that ``wherry.drivers.memory.Job`` has."""

    def __init__(self) -> None:
        self.argv = sys.argv
        self.env = dict(os.environ)

    def write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def ignore_requests(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


def leave(job: Process) -> int:
    """Ends with the exit code that it is given."""
    return int(job.argv[1])


def say(job: Process) -> None:
    for text in job.argv[1:]:
        job.write(text)


def linger(job: Process) -> None:
    """Says something and stays."""
    job.write(job.argv[1])
    while True:
        job.wait(BEAT_S)


def emit(job: Process) -> None:
    """Bytes as they are."""
    os.write(1, bytes.fromhex(job.argv[1]))


def flood(job: Process) -> None:
    """As many bytes as it is told to, each line different."""
    left, number = int(job.argv[1]), 0
    while left:
        lines = "".join(f"line {number + at} of a long story\n" for at in range(1000))[:left]
        job.write(lines)
        left -= len(lines)
        number += 1000


def mark(job: Process) -> None:
    """Leaves one line in a file for each time that it was started, then takes a moment."""
    _append(job.argv[1], "started\n")
    job.wait(float(job.argv[2]) if len(job.argv) > 2 else 0)


def describe(job: Process) -> None:
    """Writes its arguments and environment to a file."""
    with open(job.argv[1], "w", encoding="utf-8") as file:
        json.dump({"argv": job.argv[2:], "env": job.env}, file)


def beat(job: Process) -> None:
    """Writes to a file again and again, for as long as it lives."""
    while True:
        _append(job.argv[1], f"{os.getpid()}\n")
        job.wait(BEAT_S)


def beat_stubbornly(job: Process) -> None:
    job.ignore_requests()
    beat(job)


def alternate(job: Process) -> None:
    """Writes to its two outputs in turn."""
    for number in range(int(job.argv[1])):
        os.write(1 + number % 2, f"{number}\n".encode())


def family(job: Process) -> None:
    """Beats with a child in its group and one that went off into a session of its own."""
    for name, apart in (("child", False), ("runaway", True)):
        argv = [*_same(job), "beat", f"{job.argv[1]}.{name}"]
        subprocess.Popen(argv, start_new_session=apart)
    beat(job)


def deserter(job: Process) -> None:
    """Leaves a process behind that has left its group, and ends well."""
    argv = [*_same(job), "beat_stubbornly", job.argv[1]]
    subprocess.Popen(argv, start_new_session=True)
    while not os.path.exists(job.argv[1]):
        job.wait(BEAT_S)


def parricide(job: Process) -> None:
    """Kills the runner that watches it, lives on for a moment, and ends as if all were well."""
    os.kill(os.getppid(), signal.SIGKILL)
    for _ in range(50):
        _append(job.argv[1], f"{os.getpid()}\n")
        job.wait(BEAT_S)


def orphan(job: Process) -> None:
    """Kills the runner that watches it and beats on."""
    os.kill(os.getppid(), signal.SIGKILL)
    beat(job)


def _append(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(line)


def _same(job: Process) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", job.env["WHERRY_TEST_PROGRAMS"]]


EVERYWHERE = (leave, say, linger, flood, mark, describe, beat, beat_stubbornly)
ON_A_MACHINE = (emit, alternate, family, deserter, parricide, orphan)


def by_name(*functions: Any) -> Dict[str, Any]:
    return {function.__name__: function for function in functions}


if __name__ == "__main__":
    del sys.argv[0]
    sys.exit(by_name(*EVERYWHERE, *ON_A_MACHINE)[sys.argv[0]](Process()))
