"""Runs side by side: what differs, the environments, the files and the curves."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from wherry.cli import compare as compared
from wherry.cli import environment_diff
from wherry.cli.compare import beside, parameters
from wherry.cli.sparkline import curve, draw

from .conftest import Runs, Wherry


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def scalar(name: str, value: Any, step: int | None = None) -> str:
    return json.dumps({"t": 1, "k": "scalar", "n": name, "v": value, "s": step})


@pytest.fixture
def two(runs: Runs) -> list[str]:
    first = runs.queued({"train.py": b"a"}, arguments=["--lr", "0.1"], display_name="one")["id"]
    second = runs.queued({"train.py": b"b"}, arguments=["--lr", "0.2", "--fast"])["id"]
    for run_id, value in ((first, 0.5), (second, 0.75)):
        runs.log(run_id, scalar("accuracy", value), scalar("epochs", 3))
    return [first, second]


def test_what_differs_is_shown(wherry: Wherry, two: list[str]) -> None:
    first, second = two
    for command in (["compare"], ["job", "compare"]):
        lines = lines_of(wherry(*command, first, second).out)
        assert f"RUN one {second[-8:]}" in lines
        assert "--lr 0.1 0.2" in lines
        assert "--fast yes" in lines
        assert "accuracy 0.5 0.75 +0.25" in lines
        assert "changed train.py" in lines
        assert not [line for line in lines if line.startswith(("epochs", "experiment", "target"))]
    lines = lines_of(wherry("compare", first, second, "--all").out)
    assert {"epochs 3 3", "experiment e e", "target local local"} <= set(lines)
    only = wherry("compare", first, second, "--metric", "epochs").out
    assert "accuracy" not in only
    assert "metrics: the same" in only
    same = wherry("compare", first, first).out
    assert "files: the same" in same
    assert "parameters: the same" in same


def test_programs_get_all_of_it(wherry: Wherry, two: list[str]) -> None:
    data = json.loads(wherry("compare", *two, "-o", "json").out)
    assert data["metrics"] == {"accuracy": [0.5, 0.75], "epochs": [3, 3]}
    assert data["parameters"] == {"--lr": ["0.1", "0.2"], "--fast": [None, "yes"]}
    (files,) = data["files"]
    assert (files["run"], files["changed"]) == (two[1], ["train.py"])
    assert [record["id"] for record in data["runs"]] == two
    rows = [line.split("\t") for line in wherry("compare", *two, "-o", "tsv").out.splitlines()]
    assert rows[0] == ["runs", "id", *two]
    assert ["metrics", "accuracy", "0.5", "0.75"] in rows
    assert ["parameters", "--fast", "", "yes"] in rows


def test_three_runs(wherry: Wherry, runs: Runs, two: list[str]) -> None:
    third = runs.queued({"train.py": b"a", "new.py": b""}, display_name="three")["id"]
    runs.log(third, scalar("accuracy", float("nan")), scalar("epochs", 3))
    shown = wherry("job", "compare", *two, third).out
    lines = lines_of(shown)
    assert f"RUN one {two[1][-8:]} three" in lines
    assert "accuracy 0.5 0.75 nan" in lines
    assert "files of three:" in lines
    assert "added new.py" in lines
    data = json.loads(wherry("job", "compare", *two, third, "-o", "json").out)
    assert [each["added"] for each in data["files"]] == [[], ["new.py"]]
    assert data["metrics"]["accuracy"] == [0.5, 0.75, None]


def test_curves_are_drawn_on_one_scale(wherry: Wherry, runs: Runs) -> None:
    ids = [runs.ended("Completed", display_name=name)["id"] for name in ("one", "two")]
    runs.log(ids[0], *[scalar("loss", 8 - step, step) for step in range(8)])
    runs.log(ids[1], *[scalar("loss", 1, step) for step in range(4)])
    lines = wherry("compare", *ids).out.splitlines()
    place = lines.index("loss  from 1 to 8")
    assert lines[place + 1] == "  one  █▇▆▅▄▃▂▁"
    assert lines[place + 2] == "  two  ▁▁▁▁"
    assert not [line for line in lines if line.startswith("files")]


def test_many_curves_are_not_all_drawn(wherry: Wherry, runs: Runs) -> None:
    ids = [runs.ended("Completed", display_name=name)["id"] for name in ("one", "two")]
    runs.log(ids[0], *[scalar(f"m{number}", value) for number in range(11) for value in (0, 1)])
    shown = wherry("compare", *ids).out
    assert "and 3 more curves; --metric NAME shows one" in shown
    assert "m9  from 0 to 1" in wherry("compare", *ids, "--metric", "m9").out


def test_a_peak_among_many_points_is_seen() -> None:
    values = [0.0] * 5000
    values[1234] = 1.0
    (line,) = draw([curve(range(5000), values)], 40)
    assert len(line) == 40
    assert line.count("█") == 1


def test_odd_curves() -> None:
    assert draw([], 10) == []
    assert draw([curve([], [])], 10) == [""]
    assert draw([curve([None, None], [1, 2])], 10) == ["▁█"]
    odd = [math.nan, math.inf, "text", None, 10**400]
    assert draw([curve([0, 1, 2, 3, 4], odd)], 10) == [""]
    assert draw([curve([0, 1, 2], [1, math.nan, 3])], 10) == ["▁█"]
    assert draw([curve([0, 1], [-1e308, 1e308])], 10) == ["▁█"]
    assert draw([curve([5, 5], [2, 2])], 10) == ["▁"]
    assert draw([curve([0, 9], [1, 2]), curve(range(10), [1] * 10)], 10) == ["▁▁▁▁▁▁▁▁▁█", "▁" * 10]
    assert draw([curve(range(3), [1, 2, 3])], 0) == ["▁"]


def test_environments_by_name() -> None:
    conda = {
        "channels": ["conda-forge"],
        "dependencies": ["python=3.11", "numpy", {"pip": ["torch==2.1", "x[y]>=1", "./local"]}],
    }
    spec = {
        "environment": {
            "name": "train",
            "version": "3",
            "specification": {
                "python": {"user_managed": False, "conda": conda},
                "docker": {"image": "python:3.11", "arguments": ["--ipc", "host"]},
                "variables": {"A": "1"},
            },
        },
        "environment_variables": {"B": "secret"},
    }
    assert environment_diff.items(spec) == {
        "environment": "train:3",
        "channels": "conda-forge",
        "python": "3.11",
        "numpy": "any",
        "pip torch": "2.1",
        "pip x[y]": ">=1",
        "pip ./local": "yes",
        "docker.image": "python:3.11",
        "docker.arguments": "--ipc, host",
        "variables.A": "1",
        "variables": "B",
    }
    plain = {"environment": {"interpreter_path": "/usr/bin/python3"}}
    assert environment_diff.items(plain) == {"interpreter": "/usr/bin/python3"}
    assert environment_diff.items({}) == {}


def test_packages_that_differ_are_shown(wherry: Wherry, runs: Runs) -> None:
    ids = []
    for version in ("1", "2"):
        conda = {"dependencies": ["python=3.11", {"pip": [f"numpy=={version}", "scipy"]}]}
        spec = {"python": {"conda": conda}}
        ids.append(runs.queued(environment={"name": "x", "specification": spec})["id"])
    lines = lines_of(wherry("compare", *ids).out)
    assert "pip numpy 1 2" in lines
    assert not [line for line in lines if line.startswith("pip scipy")]


def test_of_a_picture_the_file_is_shown(wherry: Wherry, runs: Runs) -> None:
    ids = [runs.queued()["id"] for _ in range(2)]
    for number, run_id in enumerate(ids):
        address = f"aml://artifactId/ExperimentRun/dcid.{run_id}/roc_{number}.png"
        runs.log(run_id, json.dumps({"t": 1, "k": "image", "n": "roc", "v": address}))
    shown = wherry("compare", *ids).out + wherry("job", "show", ids[0]).out
    assert "aml:" not in shown
    assert "roc     roc_0.png  roc_1.png" in shown
    data = json.loads(wherry("compare", *ids, "-o", "json").out)
    assert data["metrics"]["roc"][0].startswith("aml://")


def test_parameters_are_arguments_and_what_was_logged_as_such() -> None:
    record = {"params": {"lr": "1"}, "spec": {"arguments": ["--lr", "0.1", "data.csv", "-n", "-3"]}}
    assert parameters(record) == {"lr": "1", "--lr": "0.1", "argument 1": "data.csv", "-n": "-3"}
    assert parameters({"spec": None}) == {}
    assert beside([{"a": 1}, {"b": 2}]) == {"a": [1, None], "b": [None, 2]}


def test_a_run_has_to_be_compared_with_another(wherry: Wherry, two: list[str]) -> None:
    refused = wherry("job", "compare", two[0])
    assert (refused.code, "missing argument 'SECOND'" in refused.err) == (2, True)
    assert wherry("job", "compare", *two, "nosuch").code == 1


def test_the_width_of_curves_follows_the_terminal(
    wherry: Wherry, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [runs.ended("Completed", display_name=name)["id"] for name in ("one", "two")]
    runs.log(ids[0], *[scalar("loss", step % 7, step) for step in range(500)])
    monkeypatch.setattr(compared, "terminal_width", lambda: 40)
    lines = wherry("compare", *ids).out.splitlines()
    drawn = next(line for line in lines if line.startswith("  one  "))
    assert len(drawn) == 40
