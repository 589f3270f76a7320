"""The best of many runs is found, compared and exported: script, server, Python and shell."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.homes import Home
from wherry.cli.app import run as wherry

SCRIPT = """
import argparse
from wherry import Run
given = argparse.ArgumentParser()
given.add_argument("--lr", type=float)
lr = given.parse_args().lr
run = Run.get_context()
for step in range(20):
    run.log("auc", 1 - lr / (step + 1), step=step)
run.log("loss", lr)
"""


def test_the_best_run(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    submitted = [home.submit(SCRIPT, "--lr", str(lr)) for lr in (0.5, 0.1, 0.9)]
    for run in submitted:
        run.wait_for_completion()
    first, second, third = submitted
    experiment = first.experiment
    best = next(experiment.get_runs(order_by="-metrics.auc"))
    assert best == second
    assert best.get_metrics()["loss"] == 0.1
    good = experiment.get_runs(filter="metrics.loss < 0.6 and status = 'Completed'")
    assert list(good) == [second, first]
    frame = experiment.to_pandas(order_by="metrics.loss")
    assert frame["arguments.lr"].tolist() == [0.1, 0.5, 0.9]
    assert frame["metrics.auc"].round(3).tolist() == [0.995, 0.975, 0.955]
    assert frame["duration_s"].gt(0).all()
    path = tmp_path / "points.csv"
    assert experiment.export(path, history=True, filter="metrics.loss > 0.8") == 21
    with open(path, newline="") as file:
        assert {row["run_id"] for row in csv.DictReader(file)} == {third.id}
    ids = [run.id for run in submitted]
    capsys.readouterr()
    assert wherry(["job", "list", "-w", "w", "--order-by", "-metrics.auc", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in listed] == [second.id, first.id, third.id]
    assert listed[0]["metrics"]["loss"] == 0.1
    assert wherry(["job", "compare", "-w", "w", *ids]) == 0
    shown = capsys.readouterr().out
    assert "auc  from 0.1 to 0.995" in shown
    assert "█" in shown
