"""A cluster on this machine beside the local target: warm, from no node at all, and in a burst."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Row, medians_s, ratio_row, server_home
from wherry import Experiment, ScriptRunConfig, Workspace
from wherry.compute import AmlCompute, ComputeTarget

NODES = 4
BURST = 100
ROUNDS = 3


def rows() -> list[Row]:
    with server_home() as folder:
        os.environ["WHERRY_LOCAL_CPUS"] = str(NODES)  # as many slots, however few CPUs there are
        source = folder / "src"
        source.mkdir()
        (source / "noop.py").write_text("pass\n")
        return _rows(Workspace.create("bench", exist_ok=True), source)


def _rows(workspace: Workspace, source: Path) -> list[Row]:
    experiment = Experiment(workspace, "noop")

    def one(target: str) -> None:
        experiment.submit(_config(source, target)).wait_for_completion()

    one("local")
    first = _first(workspace, one)
    for _ in range(5):
        one("four")
    warm, local = medians_s(lambda: one("four"), lambda: one("local"), 30)
    return [
        ratio_row("no-op run on a warm node of a cluster", warm, "local target", local, 3),
        ratio_row("the same from no node at all", first, "local target", local, 10),
        _burst(experiment, source),
    ]


def _first(workspace: Workspace, one: Callable[[str], None]) -> float:
    """The median of clusters that are made for it."""
    taken = []
    for name in ("one", "two", "three", "four"):
        config = AmlCompute.provisioning_configuration(
            vm_size="local-1", max_nodes=NODES, idle_seconds_before_scaledown=600
        )
        cluster = ComputeTarget.create(workspace, name, config)
        started = time.perf_counter()
        one(name)
        taken.append(time.perf_counter() - started)
        if name != "four":
            cluster.delete()
    return statistics.median(taken)


def _burst(experiment: Experiment, source: Path) -> Row:
    rates = [
        (_rate(experiment, source, "local"), _rate(experiment, source, "four"))
        for _ in range(ROUNDS)
    ]
    local, cluster = (statistics.median(side) for side in zip(*rates, strict=True))
    share = statistics.median(rate / other for other, rate in rates)
    return Row(
        f"{BURST} no-op runs at once on {NODES} nodes",
        f"{cluster:.1f}/s",
        f"local target: {local:.1f}/s",
        f"{share:.0%}",
        ">= 50%",
        share >= 0.5,
    )


def _rate(experiment: Experiment, source: Path, target: str) -> float:
    started = time.perf_counter()
    for run in experiment.submit_many([_config(source, target)] * BURST):
        run.wait_for_completion()
    return BURST / (time.perf_counter() - started)


def _config(source: Path, target: str) -> ScriptRunConfig:
    return ScriptRunConfig(str(source), "noop.py", compute_target=target)
