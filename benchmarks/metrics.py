"""``run.log`` as a script sees it, when its points are stored, and how they are read back."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.caller import Caller
from benchmarks.measure import Row, peak_pss_mb, server_home
from wherry import Experiment, Run, ScriptRunConfig, Workspace

READ_BACK = 1_000_000
_PER_REQUEST = 50_000

SCRIPT = """
import json, os, statistics, time
from wherry import Run

run = Run.get_context()
COUNT = 50_000

def logged():
    started = time.perf_counter()
    for step in range(COUNT):
        run.log("loss", 0.5)
    return time.perf_counter() - started

def written():
    started = time.perf_counter()
    with open("local.txt", "w") as file:
        for step in range(COUNT):
            file.write("loss 0.5\\n")
    return time.perf_counter() - started

logged(), written()
rounds = [(logged(), written()) for _ in range(5)]
run.flush(60)
waits = []
for _ in range(5):
    for step in range(10_000):
        run.log("accuracy", 0.5)
    called = time.perf_counter()
    run.flush(60)
    waits.append(time.perf_counter() - called)
    time.sleep(0.5)
print(json.dumps({
    "logged": COUNT / statistics.median(pair[0] for pair in rounds),
    "written": COUNT / statistics.median(pair[1] for pair in rounds),
    "stored_s": statistics.median(waits),
}))
"""


def rows() -> list[Row]:
    with server_home() as folder:
        source = folder / "src"
        source.mkdir()
        (source / "log.py").write_text(SCRIPT)
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "metrics")
        run = experiment.submit(ScriptRunConfig(source_directory=str(source), script="log.py"))
        run.wait_for_completion()
        told = json.loads(_log(folder / "home", run).strip().splitlines()[-1])
        return [*_logging(told), *_reading(experiment, folder / "home")]


def _log(home: Path, run: Run) -> str:
    return Caller(home).ask("GET", f"/api/v1/runs/{run.id}/logs/user_logs/std_log.txt").decode()


def _logging(told: dict[str, float]) -> list[Row]:
    rate, floor, stored_s = told["logged"], told["written"], told["stored_s"]
    return [
        Row(
            "run.log in a loop",
            f"{rate:,.0f}/s",
            f"lines to a local file: {floor:,.0f}/s",
            f"{rate / floor:.0%}",
            ">= 50,000/s",
            rate >= 50_000,
        ),
        Row(
            "10,000 points stored after the last call",
            f"{stored_s * 1000:.0f} ms",
            goal="<= 1 s",
            holds=stored_s <= 1,
        ),
    ]


def _reading(experiment: Experiment, home: Path) -> list[Row]:
    """A million points of one metric, sent and read back."""
    caller = Caller(home)
    fields = {"experiment": experiment.name}
    run_id = caller.send("/api/v1/workspaces/bench/runs/interactive", fields)["id"]
    line = b'{"t":1700000000.5,"k":"scalar","n":"loss","v":0.25}\n'
    body, offset = line * _PER_REQUEST, 0
    for _ in range(READ_BACK // _PER_REQUEST):
        caller.ask("POST", f"/api/v1/runs/{run_id}/spool/metrics?offset={offset}", body)
        offset += len(body)
    pid = json.loads((home / "server.json").read_text())["pid"]
    with peak_pss_mb(pid) as memory:
        started = time.perf_counter()
        content = caller.ask("GET", f"/api/v1/runs/{run_id}/metrics")
        taken = time.perf_counter() - started
    assert len(json.loads(content)["metrics"]["loss"]) == READ_BACK
    started = time.perf_counter()
    caller.ask("GET", f"/api/v1/runs/{run_id}")
    shown = time.perf_counter() - started
    return [
        Row("1,000,000 points read back", f"{taken:.1f} s, {READ_BACK / taken:,.0f}/s"),
        Row(
            "server memory meanwhile",
            f"{memory[-1]:.0f} MB",
            goal="< 300 MB",
            holds=memory[-1] < 300,
        ),
        Row("showing that run", f"{shown * 1000:.1f} ms"),
    ]
