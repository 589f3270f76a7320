"""Runs found by what they logged, exported, and the experiments that hold them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from wherry.cli import candidates
from wherry.cli.session import Session
from wherry.sdk.client import Client

from .conftest import Runs, Wherry
from .test_compare import lines_of, scalar


@pytest.fixture
def three(runs: Runs) -> list[str]:
    found = []
    for number in range(3):
        tags = {"team": "x" if number else "y"}
        name = f"run-{number}"
        run_id = runs.queued(display_name=name, tags=tags, arguments=["--n", str(number)])["id"]
        runs.log(run_id, scalar("auc", 0.5 + number / 10), scalar("loss", 9), scalar("loss", 4))
        found.append(run_id)
    return found


def ids(wherry: Wherry, *arguments: str) -> list[str]:
    result = wherry("job", "list", *arguments, "--query", "[].id", "-o", "tsv")
    assert result.code == 0, result.err
    return result.out.split()


def test_filters_and_orders(wherry: Wherry, three: list[str]) -> None:
    assert ids(wherry, "--order-by", "metrics.auc") == three
    assert ids(wherry, "--order-by", "-metrics.auc", "-n", "1") == three[:1:-1]
    assert ids(wherry, "--order-by", "metrics.auc desc") == three[::-1]
    words = "metrics.auc > 0.55 and tags.team = 'x'"
    assert ids(wherry, "--filter", words) == [three[2], three[1]]
    assert ids(wherry, "--filter", words, "--tag", "team=y") == []


def test_what_is_spoken_of_is_shown(wherry: Wherry, three: list[str]) -> None:
    plain = wherry("job", "list").out.splitlines()[0].split()
    assert "auc" not in plain
    shown = lines_of(
        wherry("job", "list", "--order-by", "-metrics.auc", "--filter", "tags.team = 'x'").out
    )
    assert shown[0].startswith("ID NAME EXPERIMENT STATUS auc team SUBMITTED")
    assert " Queued 0.7 x " in shown[1]
    shown = lines_of(wherry("job", "list", "--metric", "loss", "--metric", "none").out)
    assert " STATUS loss none " in shown[0]
    assert " Queued 4 " in shown[1]
    data = json.loads(wherry("job", "list", "--metric", "loss", "-o", "json").out)
    assert data[0]["metrics"] == {"auc": 0.7, "loss": 4}
    assert "metrics" not in json.loads(wherry("job", "list", "-o", "json").out)[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--filter", "metrics.auc >"], "the filter 'metrics.auc >' is not understood: it ends"),
        (["--filter", "auc > 0.5"], "there is no attribute 'auc'"),
        (["--order-by", "metrics.auc UP"], "the order 'metrics.auc UP' is not understood"),
        (["--order-by", "beauty"], "runs cannot be ordered by 'beauty'"),
    ],
)
def test_what_is_not_understood_is_refused(
    wherry: Wherry, three: list[str], tmp_path: Path, arguments: list[str], told: str
) -> None:
    refused = wherry("job", "list", *arguments)
    assert (refused.code, refused.out) == (1, "")
    assert told in refused.err
    path = tmp_path / "runs.csv"
    assert wherry("job", "export", "--output-file", str(path), *arguments).code == 1
    assert not path.exists()


def read(path: Path) -> list[dict[str, Any]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_export(wherry: Wherry, three: list[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    done = wherry("job", "export", "--output-file", str(path), "--order-by", "metrics.auc")
    assert (done.code, done.err) == (0, f"wherry: {path} has 3 runs\n")
    rows = read(path)
    assert [row["id"] for row in rows] == three
    assert [row["metrics.auc"] for row in rows] == ["0.5", "0.6", "0.7"]
    assert [row["arguments.n"] for row in rows] == ["0", "1", "2"]
    best = ["--filter", "metrics.auc > 0.65", "--history"]
    assert wherry("job", "export", "--output-file", str(path), *best).code == 0
    points = [(row["run_id"], row["metric"], row["value"]) for row in read(path)]
    assert points == [
        (three[2], "auc", "0.7"),
        (three[2], "loss", "9.0"),
        (three[2], "loss", "4.0"),
    ]
    parquet = tmp_path / "runs.parquet"
    assert wherry("job", "export", "--output-file", str(parquet)).code == 0
    assert parquet.read_bytes()[:4] == b"PAR1"


def test_what_cannot_be_exported(wherry: Wherry, three: list[str], tmp_path: Path) -> None:
    refused = wherry("job", "export", "--output-file", str(tmp_path / "runs.xls"))
    assert refused.code == 1
    assert "neither CSV nor Parquet" in refused.err
    refused = wherry("job", "export", "--output-file", str(tmp_path / "a.csv"), "--experiment", "f")
    assert refused.code == 1
    assert "has no experiment 'f'" in refused.err
    assert not (tmp_path / "a.csv").exists()


def test_experiments(wherry: Wherry, three: list[str], runs: Runs) -> None:
    runs.client.post("/workspaces/w/experiments", json={"name": "empty"})
    lines = lines_of(wherry("experiment", "list").out)
    assert [line.split()[0] for line in lines] == ["NAME", "e", "empty"]
    changed = wherry("experiment", "update", "e", "--tag", "a=1", "--tag", "b=", "-o", "json")
    assert json.loads(changed.out)["tags"] == {"a": "1", "b": ""}
    wherry("experiment", "update", "e", "--remove-tag", "b", "--description", "a try")
    shown = lines_of(wherry("experiment", "show", "e").out)
    assert {"name e", "tags a=1", "description a try"} <= set(shown)
    assert any(three[0][-8:] in line for line in shown)
    assert wherry("experiment", "archive", "empty").code == 0
    assert wherry("experiment", "list", "--query", "[].name", "-o", "tsv").out == "e\n"
    assert "yes" in wherry("experiment", "list", "--all").out
    assert wherry("experiment", "restore", "empty").code == 0
    assert wherry("experiment", "delete", "empty", "--yes").code == 0
    assert wherry("experiment", "list", "--query", "[].name", "-o", "tsv").out == "e\n"


def test_mistakes_with_experiments(wherry: Wherry, three: list[str]) -> None:
    for verb in ("show", "archive", "restore", "delete"):
        refused = wherry("experiment", verb, "f")
        assert refused.code == 1
        assert "workspace 'w' has no experiment 'f'" in refused.err
        assert "the experiments are: e" in refused.err
    assert wherry("experiment", "update", "e").code == 2
    assert wherry("experiment", "show", "a/b").code == 1
    refused = wherry("experiment", "delete", "e", "--yes")
    assert refused.code == 1
    assert "3 runs" in refused.err


def test_metrics_and_orders_are_completed(client: Client, three: list[str]) -> None:
    session = Session(client)
    names = [item.value for item in candidates.find("metrics", session, "")]
    assert names == ["auc", "loss"]
    orders = [item.value for item in candidates.find("orders", session, "-m")]
    assert orders == ["-metrics.auc", "-metrics.loss"]
