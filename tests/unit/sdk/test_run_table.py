"""Runs as tables: columns of one kind each, as CSV, Parquet and frames."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from pyarrow import parquet

from wherry import Experiment, Run, UserErrorException, Workspace
from wherry.core.script_arguments import by_name
from wherry.sdk import run_table, table_file

from .fake_server import FakeServer


def record(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "display_name": "",
        "experiment": "churn",
        "status": "Completed",
        "submitted_at": "2026-01-02T03:04:05Z",
        "started_at": "2026-01-02T03:04:06.500000Z",
        "ended_at": "2026-01-02T03:04:08Z",
        "target": "local",
        **fields,
    }


RECORDS = [
    record(
        1,
        params={"lr": "0.1", "model": "gbm"},
        arguments=["--depth", 3, "--fast", "a,b.csv"],
        tags={"team": "x\ny"},
        metrics={"auc": 0.5, "n": 7, "huge": 10**30, "mixed": 1},
    ),
    record(
        2,
        ended_at=None,
        params={"lr": "1e-3", "model": "7"},
        arguments=["--depth=4"],
        metrics={"auc": math.nan, "n": 8, "mixed": "text"},
    ),
    record(3),
]


def test_every_column_is_of_one_kind() -> None:
    table = run_table.of_runs(RECORDS)
    assert list(table)[:5] == ["id", "name", "experiment", "status", "submitted_at"]
    assert table["duration_s"] == [1.5, None, 1.5]
    assert table["params.lr"] == [0.1, 0.001, None]
    assert table["params.model"] == ["gbm", "7", None]
    assert table["arguments.depth"] == [3, 4, None]
    assert table["arguments.fast"] == ["a,b.csv", None, None]
    assert table["metrics.n"] == [7, 8, None]
    assert table["metrics.huge"] == [1e30, None, None]
    assert table["metrics.mixed"] == ["1", "text", None]
    assert list(run_table.of_runs([])) == list(table)[:9]


def test_arguments_by_name() -> None:
    assert by_name(["--lr", "-0.5", "-v", "--n=a=b", "x", "-1"]) == {
        "--lr": "-0.5",
        "-v": "yes",
        "--n": "a=b",
        "argument 1": "x",
        "argument 2": "-1",
    }


def test_a_csv_file_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    table_file.write(table_file.check(path), run_table.of_runs(RECORDS))
    with open(path, newline="", encoding="utf-8") as file:
        first, second, third = csv.DictReader(file)
    assert (first["tags.team"], first["arguments.fast"]) == ("x\ny", "a,b.csv")
    assert (second["metrics.auc"], third["metrics.auc"]) == ("nan", "")
    assert [each.name for each in tmp_path.iterdir() if "runs" in each.name] == ["runs.csv"]


def test_a_parquet_file_and_a_frame_have_types(tmp_path: Path) -> None:
    table = run_table.of_runs(RECORDS)
    path = tmp_path / "runs.Parquet"
    table_file.write(table_file.check(path), table)
    read = parquet.read_table(path)
    assert str(read.schema.field("metrics.n").type) == "int64"
    assert str(read.schema.field("started_at").type).startswith("timestamp")
    assert read.column("params.lr").to_pylist() == [0.1, 0.001, None]
    frame = table_file.to_pandas(table)
    assert isinstance(frame, pandas.DataFrame)
    assert str(frame["started_at"].dtype).startswith("datetime64")
    assert frame["metrics.auc"].isna().tolist() == [False, True, True]


def test_what_cannot_be_written_is_refused_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserErrorException, match="neither CSV nor Parquet"):
        table_file.check("runs.xlsx")
    with pytest.raises(UserErrorException, match="there is no folder"):
        table_file.check(tmp_path / "none" / "runs.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserErrorException, match="needs the package pyarrow") as told:
        table_file.check("runs.parquet")
    assert told.value.hint == "pip install pyarrow"
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserErrorException, match="needs the package pandas"):
        table_file.to_pandas({})


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("before")
    with pytest.raises(TypeError):
        table_file.write(str(path), {"a": 3})  # type: ignore[dict-item]
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir() if "runs" in each.name] == ["runs.csv"]


def test_filters_and_orders_go_to_the_server(
    experiment: Experiment, workspace: Workspace, fake: FakeServer
) -> None:
    list(experiment.get_runs(filter="metrics.auc > 0.8", order_by="-metrics.auc"))
    assert "filter=metrics.auc+%3E+0.8" in fake.targets[-1]
    assert "order_by=-metrics.auc" in fake.targets[-1]
    workspace.list_runs(include=["metrics"])
    assert "include=metrics" in fake.targets[-1]
    list(experiment.get_runs())
    assert "filter" not in fake.targets[-1]


def test_points_of_a_run_as_a_frame(experiment: Experiment) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        for value in (0.5, 0.25):
            run.log("loss", value)
        run.log("acc", 1, step=7)
        run.log_row("row", x=1)
    frame = Run.get(experiment.workspace, run.id).metrics_to_pandas()
    assert list(frame.columns) == ["run_id", "metric", "step", "at", "value"]
    assert frame["metric"].tolist() == ["loss", "loss", "acc"]
    assert frame["value"].tolist() == [0.5, 0.25, 1.0]
    assert run.metrics_to_pandas("acc")["step"].tolist() == [7]
