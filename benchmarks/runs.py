"""No-op runs, one at a time and two hundred at once."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import (
    PYTHON,
    WHERRY,
    Row,
    command,
    medians_s,
    pss_mb,
    ratio_row,
    server_home,
)
from wherry import Experiment, Run, ScriptRunConfig, Workspace

BURST = 200
BULK = 3000


def rows() -> list[Row]:
    with server_home() as folder:
        source = folder / "src"
        source.mkdir()
        (source / "noop.py").write_text("pass\n")
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "noop")
        return [
            _one(experiment, source),
            _by_command(source),
            _burst(experiment, source),
            *_bulk(experiment, source, folder / "home"),
        ]


def _submit(experiment: Experiment, source: Path) -> Run:
    return experiment.submit(ScriptRunConfig(source_directory=str(source), script="noop.py"))


def _one(experiment: Experiment, source: Path) -> Row:
    def act() -> None:
        _submit(experiment, source).wait_for_completion()

    for _ in range(5):
        act()
    whole, bare = medians_s(act, command(PYTHON, source / "noop.py"), 40)
    return ratio_row("no-op run, SDK, submit to result", whole, "python noop.py", bare, 5)


def _by_command(source: Path) -> Row:
    act = command(WHERRY, "run", source / "noop.py")
    act()
    whole, bare = medians_s(act, command(PYTHON, "-c", "pass"), 15)
    return ratio_row("wherry run noop.py, whole command", whole, "python -c pass", bare, 15)


def _burst(experiment: Experiment, source: Path) -> Row:
    bare = command(PYTHON, source / "noop.py")
    started = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: bare(), range(BURST)))
    pool_rate = BURST / (time.perf_counter() - started)
    started = time.perf_counter()
    runs = [_submit(experiment, source) for _ in range(BURST)]
    for run in runs:
        run.wait_for_completion()
    rate = BURST / (time.perf_counter() - started)
    share = rate / pool_rate
    return Row(
        f"{BURST} no-op runs at once",
        f"{rate:.1f}/s",
        f"pool of two: {pool_rate:.1f}/s",
        f"{share:.0%}",
        ">= 50%",
        share >= 0.5,
    )


def _bulk(experiment: Experiment, source: Path, home: Path) -> list[Row]:
    """The first of them holds the machine, so that the others stay queued."""
    (source / "hold.py").write_text("import time; time.sleep(600)\n")
    hold = ScriptRunConfig(source_directory=str(source), script="hold.py")
    holders = [experiment.submit(hold) for _ in range(os.cpu_count() or 1)]
    configs = [
        ScriptRunConfig(source_directory=str(source), script="noop.py", arguments=[number])
        for number in range(BULK)
    ]
    started = time.perf_counter()
    experiment.submit_many(configs)
    rate = BULK / (time.perf_counter() - started)
    memory = pss_mb(json.loads((home / "server.json").read_text())["pid"])
    for run in holders:
        run.cancel()
    return [
        Row(f"{BULK} runs in bulk", f"{rate:.0f}/s", "", "", ">= 1000/s", rate >= 1000),
        Row(f"server memory, {BULK} queued", f"{memory:.0f} MB", "", "", "< 300 MB", memory < 300),
    ]
