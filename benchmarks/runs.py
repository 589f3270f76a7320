"""No-op runs, one at a time and two hundred at once."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
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
ROUNDS = 5
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
            *_bursts(experiment, source),
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


def _bursts(experiment: Experiment, source: Path) -> list[Row]:
    """Pool and burst take turns; each row is the median of its rounds' ratios."""

    def each() -> list[Run]:
        return [_submit(experiment, source) for _ in range(BURST)]

    def together() -> list[Run]:
        config = ScriptRunConfig(source_directory=str(source), script="noop.py")
        return experiment.submit_many([config] * BURST)

    bare = command(PYTHON, source / "noop.py")
    return [
        _burst(f"{BURST} no-op runs at once, submitted one by one", each, bare),
        _burst(f"{BURST} no-op runs at once, submitted together", together, bare),
    ]


def _burst(what: str, submit: Callable[[], list[Run]], bare: Callable[[], object]) -> Row:
    rates = [(_pool_rate(bare), _burst_rate(submit)) for _ in range(ROUNDS)]
    share = statistics.median(rate / pool_rate for pool_rate, rate in rates)
    pool_rate, rate = (statistics.median(side) for side in zip(*rates, strict=True))
    return Row(
        what,
        f"{rate:.1f}/s",
        f"pool of two: {pool_rate:.1f}/s",
        f"{share:.0%}",
        ">= 50%",
        share >= 0.5,
    )


def _pool_rate(bare: Callable[[], object]) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: bare(), range(BURST)))
    return BURST / (time.perf_counter() - started)


def _burst_rate(submit: Callable[[], list[Run]]) -> float:
    started = time.perf_counter()
    for run in submit():
        run.wait_for_completion()
    return BURST / (time.perf_counter() - started)


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
