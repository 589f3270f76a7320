"""How soon a printed line is seen, and what a gigabyte of output costs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from benchmarks.caller import Caller
from benchmarks.measure import PYTHON, WHERRY, Row, peak_pss_mb, ratio_row, server_home
from wherry import Experiment, Run, ScriptRunConfig, Workspace

FOLLOWERS = 20
LINES = 300
GIGABYTE = 1_000_000_000
_MEMORY_MB = 300

TICKING = f"""
import time
time.sleep(2)
for _ in range({LINES}):
    print(repr(time.time()), flush=True)
    time.sleep(0.03)
"""
PRINTING = f"""
line = "x" * 999
for _ in range({GIGABYTE} // 1000):
    print(line)
"""


def rows() -> list[Row]:
    with server_home() as folder:
        source = folder / "src"
        source.mkdir()
        (source / "tick.py").write_text(TICKING)
        (source / "print.py").write_text(PRINTING)
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "logs")
        return [_latency(experiment, source, folder), *_gigabyte(experiment, source, folder)]


def _submit(experiment: Experiment, source: Path, script: str) -> Run:
    return experiment.submit(ScriptRunConfig(source_directory=str(source), script=script))


def _path(run: Run) -> str:
    return f"/api/v1/runs/{run.id}/logs/user_logs/std_log.txt"


def _latency(experiment: Experiment, source: Path, folder: Path) -> Row:
    run = _submit(experiment, source, "tick.py")

    def follow(_number: int) -> list[float]:
        delays, rest = [], b""
        reply = Caller(folder / "home").open(f"{_path(run)}?follow=true")
        while piece := reply.read1(65536):
            now = time.time()
            *lines, rest = (rest + piece).split(b"\n")
            delays += [now - float(line) for line in lines if line]
        return delays

    with ThreadPoolExecutor(FOLLOWERS) as pool:
        found = list(pool.map(follow, range(FOLLOWERS)))
    complete = all(len(delays) == LINES for delays in found)
    p95 = statistics.quantiles([delay for delays in found for delay in delays], n=20)[-1]
    return Row(
        f"line printed to line seen, {FOLLOWERS} followers, p95",
        f"{p95 * 1000:.0f} ms" + ("" if complete else ", lines were lost"),
        goal="<= 200 ms",
        holds=complete and p95 <= 0.2,
    )


def _gigabyte(experiment: Experiment, source: Path, folder: Path) -> list[Row]:
    """Once with a follower; the file of the baseline is as much on disk as the log is."""
    bare = _to_file(source, folder / "bare.txt")
    server = int(json.loads((folder / "home" / "server.json").read_text())["pid"])
    started = time.perf_counter()
    run = _submit(experiment, source, "print.py")
    follower = subprocess.Popen(
        [WHERRY, "logs", "--follow", run.id, "-w", "bench"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runner = _runner(server, run)
    with peak_pss_mb(server, runner, follower.pid) as peaks:
        run.wait_for_completion()
        taken = time.perf_counter() - started
        follower.wait(120)
    bare = statistics.median([bare, _to_file(source, folder / "bare.txt")])
    names = ("server", "runner", "follower")
    told = ", ".join(f"{name} {peak:.0f}" for name, peak in zip(names, peaks, strict=True))
    memory = Row(
        "memory meanwhile, MB", told, goal=f"< {_MEMORY_MB} each", holds=max(peaks) < _MEMORY_MB
    )
    what = "a script that prints 1 GB, followed, submit to stored"
    return [ratio_row(what, taken, "python -u to a file", bare, 1.5), memory]


def _to_file(source: Path, file: Path) -> float:
    started = time.perf_counter()
    with file.open("wb") as output:
        subprocess.run([PYTHON, "-u", source / "print.py"], stdout=output, check=True)
        os.fsync(output.fileno())
    taken = time.perf_counter() - started
    file.unlink()
    return taken


def _runner(server: int, run: Run) -> int:
    """The process that looks after the run on its node."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for process in psutil.process_iter(["pid", "cmdline"]):
            words = process.info["cmdline"] or []
            if words[-1:] and words[-1].endswith("print.py") and process.ppid() != os.getpid():
                return process.ppid()
        time.sleep(0.02)
    raise RuntimeError(f"run {run.id} of server {server} did not start")
