"""A hundred clients at once, for a minute: how many answers a second, and how late the last."""

from __future__ import annotations

import os
import random
import statistics
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.caller import Caller
from benchmarks.measure import Row, server_home
from wherry import Experiment, ScriptRunConfig, Workspace

CLIENTS = 100
THINKING_S = 0.5
MINUTE_S = 60.0
BREATHLESS_S = 15.0
_RUNS = "/api/v1/workspaces/bench/runs"


def rows() -> list[Row]:
    """What people do: mostly look, now and then submit. What is submitted waits its turn."""
    with server_home() as folder:
        source = folder / "src"
        source.mkdir()
        (source / "noop.py").write_text("pass\n")
        (source / "hold.py").write_text("import time; time.sleep(900)\n")
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "clients")
        done = experiment.submit(ScriptRunConfig(source_directory=str(source), script="noop.py"))
        done.wait_for_completion()
        hold = ScriptRunConfig(source_directory=str(source), script="hold.py")
        holders = [experiment.submit(hold) for _ in range(os.cpu_count() or 1)]
        asked = _questions(done.id, str(done.get_snapshot_id()))
        calm = _load(folder / "home", asked, MINUTE_S, THINKING_S)
        wild = _load(folder / "home", asked, BREATHLESS_S, 0.0)
        for run in holders:
            run.cancel()
    return [
        _row(f"{CLIENTS} clients for a minute, {THINKING_S:g} s between", calm, 0.2),
        _row(f"{CLIENTS} clients without a pause", wild, None),
    ]


Question = Callable[[Caller], object]


def _questions(run_id: str, snapshot_id: str) -> list[Question]:
    def submit(caller: Caller) -> None:
        fields = {
            "experiment": "clients",
            "script": "noop.py",
            "snapshot_id": snapshot_id,
            "submission_key": uuid.uuid4().hex,
        }
        caller.send(_RUNS, fields)

    return [
        submit,
        lambda caller: caller.ask("GET", f"{_RUNS}?limit=20"),
        lambda caller: caller.ask("GET", f"{_RUNS}?limit=20&status=Queued&status=Running"),
        lambda caller: caller.ask("GET", f"/api/v1/runs/{run_id}"),
        lambda caller: caller.ask("GET", f"/api/v1/runs/{run_id}/logs/user_logs/std_log.txt"),
        lambda caller: caller.ask("GET", f"/api/v1/runs/{run_id}/metrics"),
    ]


def _load(
    home: Path, questions: list[Question], seconds: float, pause_s: float
) -> tuple[list[float], int]:
    """How long each answer took, and how many were errors."""
    until = time.monotonic() + seconds

    def client(number: int) -> tuple[list[float], int]:
        chance, caller = random.Random(number), Caller(home)
        taken, errors = [], 0
        time.sleep(chance.random() * pause_s)
        while time.monotonic() < until:
            started = time.perf_counter()
            try:
                chance.choice(questions)(caller)
            except Exception:
                errors += 1
                caller = Caller(home)
            taken.append(time.perf_counter() - started)
            time.sleep(chance.uniform(0.5, 1.5) * pause_s)
        return taken, errors

    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(client, range(CLIENTS)))
    return [each for taken, _ in found for each in taken], sum(errors for _, errors in found)


def _row(what: str, load: tuple[list[float], int], at_most_s: float | None) -> Row:
    taken, errors = load
    seconds = MINUTE_S if at_most_s else BREATHLESS_S
    p50, p99 = statistics.median(taken), statistics.quantiles(taken, n=100)[-1]
    return Row(
        what,
        f"{len(taken) / seconds:.0f}/s, p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, "
        f"{errors} errors",
        goal=f"p99 <= {at_most_s * 1000:g} ms, no error" if at_most_s else "",
        holds=p99 <= at_most_s and not errors if at_most_s else None,
    )
