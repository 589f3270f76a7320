"""``python -m benchmarks.mlflow_server``: beside a real ``mlflow server``, by MLflow's own client.

MLflow's server has what suits it best here: SQLite, one worker, no jobs. Both servers are filled,
asked and looked at in the same run.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import insert, select

from benchmarks.measure import PYTHON, REPOSITORY, WHERRY, Row, print_table, pss_mb, server_home
from wherry import Environment, Experiment, Run, ScriptRunConfig, Workspace
from wherry.store import workspaces
from wherry.store.database import Database, batches
from wherry.store.tables import labels, runs, series

MLFLOW = "mlflow==3.17.2"
RUNS, POINTS, BATCH, SINGLE = 100_000, 100_000, 1000, 200
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
_CLIENT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from mlflow import MlflowClient
from mlflow.entities import Metric
client, found = MlflowClient(), {}
single, points, batch = map(int, sys.argv[1:4])
experiment = sys.argv[4]
run = client.create_run(experiment).info.run_id
def timed(name, act):
    started = time.perf_counter()
    answer = act()
    found[name] = time.perf_counter() - started
    return answer
client.log_metric(run, "warm", 1.0)
def one_by_one():
    for step in range(single):
        client.log_metric(run, "single", step * 0.5, step=step)
timed("single", one_by_one)
def in_batches():
    for first in range(0, points, batch):
        steps = range(first, first + batch)
        metrics = [Metric("loss", s * 0.5, 1700000000000 + s, s) for s in steps]
        client.log_batch(run, metrics=metrics)
timed("batches", in_batches)
assert len(timed("history", lambda: client.get_metric_history(run, "loss"))) == points
def search():
    wanted = "metrics.auc > 0.5 and tags.team = 'x'"
    return client.search_runs([experiment], wanted, order_by=["metrics.auc DESC"], max_results=100)
search()
page = timed("search", search)
assert len(page) == 100, len(page)
found["best"] = page[0].data.metrics["auc"]
found["run"] = run
print(json.dumps(found))
"""
_SCRIPT = """
import time
import mlflow
mlflow.log_metric("warm", 1)
started = time.perf_counter()
for step in range(20_000):
    mlflow.log_metric("inside", step * 0.5, step=step)
print("rate", 20_000 / (time.perf_counter() - started))
"""


@dataclass
class Side:
    """One of the two servers, and how long it took to be there."""

    url: str
    token: str
    pid: int
    start_s: float

    def ask(self, python: str, experiment: str) -> dict[str, Any]:
        sizes = [str(each) for each in (SINGLE, POINTS, BATCH)]
        env = {**os.environ, **_QUIET, "MLFLOW_TRACKING_URI": self.url}
        env["MLFLOW_TRACKING_TOKEN"] = self.token
        done = subprocess.run(
            [python, "-c", _CLIENT, *sizes, experiment],
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            check=True,
        )
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told

    def memory_mb(self) -> float:
        tree = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        return sum(pss_mb(each.pid) for each in tree)


def rows() -> list[Row]:
    python = _interpreter()
    with server_home() as folder, _theirs(python, folder) as theirs:
        ours = _ours(folder / "home")
        experiment = _fill_ours(folder / "home")
        wherry = ours.ask(python, experiment)
        mlflow = theirs.ask(python, "1")
        assert wherry["best"] == mlflow["best"]
        sdk = _by_sdk(wherry["run"], python, folder)
        return [*_compared(wherry, mlflow, sdk), *_resources(ours, theirs)]


def _compared(wherry: dict[str, Any], mlflow: dict[str, Any], sdk: dict[str, float]) -> list[Row]:
    single = SINGLE / mlflow["single"]
    batches_ = POINTS / mlflow["batches"]
    return [
        _faster("a metric, our SDK", sdk["log"], single, 50, "/s"),
        _faster("a metric, MLflow's client in a run of ours", sdk["inside"], single, 4, "/s"),
        _faster("a metric, MLflow's client outside", SINGLE / wherry["single"], single, 4, "/s"),
        _faster("metrics in batches of 1,000", POINTS / wherry["batches"], batches_, 4, "/s"),
        _shorter("100,000 points read, our SDK", sdk["history"], mlflow["history"], 20),
        _shorter("100,000 points read, MLflow's client", wherry["history"], mlflow["history"], 0),
        _shorter("the best 100 of 100,000 runs", wherry["search"], mlflow["search"], 5),
    ]


def _resources(ours: Side, theirs: Side) -> list[Row]:
    memory = ours.memory_mb(), theirs.memory_mb()
    return [
        _shorter("start until it answers", ours.start_s, theirs.start_s, 0),
        Row(
            "memory afterwards",
            f"{memory[0]:.0f} MB",
            f"mlflow: {memory[1]:.0f} MB",
            f"{memory[1] / memory[0]:.1f}x less",
        ),
    ]


def _faster(what: str, ours: float, theirs: float, at_least: float, unit: str) -> Row:
    ratio = ours / theirs
    goal = f">= {at_least:g}x" if at_least else ""
    holds = ratio >= at_least if at_least else None
    return Row(
        what, f"{ours:,.0f}{unit}", f"mlflow: {theirs:,.0f}{unit}", f"{ratio:.1f}x", goal, holds
    )


def _shorter(what: str, ours_s: float, theirs_s: float, at_least: float) -> Row:
    ratio = theirs_s / ours_s
    goal = f">= {at_least:g}x" if at_least else ""
    holds = ratio >= at_least if at_least else None
    shown = f"{ours_s * 1000:,.0f} ms", f"mlflow: {theirs_s * 1000:,.0f} ms"
    return Row(what, *shown, f"{ratio:.1f}x", goal, holds)


def _by_sdk(run_id: str, python: str, folder: Path) -> dict[str, float]:
    workspace = Workspace.get("default")
    with Experiment(workspace, "sdk").start_logging(snapshot_directory=None) as run:
        started = time.perf_counter()
        for step in range(20_000):
            run.log("loss", step * 0.5, step=step)
        run.flush(60)
        log = 20_000 / (time.perf_counter() - started)
    other = Run.get(workspace, run_id)
    started = time.perf_counter()
    assert len(other.get_metric_history("loss")) == POINTS
    history = time.perf_counter() - started
    return {"log": log, "history": history, "inside": _inside(workspace, python, folder)}


def _inside(workspace: Workspace, python: str, folder: Path) -> float:
    source = folder / "inside"
    source.mkdir()
    (source / "train.py").write_text(_SCRIPT)
    environment = Environment("mlflow")
    environment.python.interpreter_path = python
    environment.environment_variables = dict(_QUIET)
    config = ScriptRunConfig(str(source), "train.py", environment=environment)
    run = Experiment(workspace, "inside").submit(config)
    run.wait_for_completion()
    log = folder / "log.txt"
    run.download_file("user_logs/std_log.txt", str(log))
    told = [line for line in log.read_text().splitlines() if line.startswith("rate ")]
    return float(told[0].split()[1])


def _ours(home: Path) -> Side:
    started = time.perf_counter()
    subprocess.run([WHERRY, "server", "start"], check=True, capture_output=True)
    taken = time.perf_counter() - started
    known = json.loads((home / "server.json").read_text())
    token = (home / "token").read_text().strip()
    return Side(f"{known['url']}/mlflow/default", token, int(known["pid"]), taken)


@contextmanager
def _theirs(python: str, folder: Path) -> Iterator[Side]:
    """Filled before it is started for good."""
    store = folder / "mlflow.db"
    port = _free_port()
    words = [python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{store}"]
    words += ["--artifacts-destination", str(folder / "artifacts"), "--workers", "1"]
    words += ["--port", str(port)]
    env = {**os.environ, **_QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    url = f"http://127.0.0.1:{port}"
    tables = [python, "-m", "mlflow", "db", "upgrade", f"sqlite:///{store}"]
    subprocess.run(tables, env=env, check=True, capture_output=True)
    _fill_theirs(store)
    started = time.perf_counter()
    with _serving(words, env, url, folder / "mlflow.log") as pid:
        yield Side(url, "", pid, time.perf_counter() - started)


@contextmanager
def _serving(words: list[str], env: dict[str, str], url: str, log: Path) -> Iterator[int]:
    """From when it answers until it is gone; it takes its time to end by itself."""
    with open(log, "wb") as output:
        process = subprocess.Popen(words, env=env, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120
        while not _answers(url):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"mlflow server did not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        yield process.pid
    finally:
        with suppress(psutil.Error):
            for each in psutil.Process(process.pid).children(recursive=True):
                each.kill()
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _facts() -> Iterator[tuple[int, float, str]]:
    """The number of a run, its metric and its tag, the same on both sides."""
    for number in range(RUNS):
        yield number, (number * 7919 % RUNS) / RUNS, "xyz"[number % 3]


def _fill_theirs(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(
            "INSERT INTO experiments (experiment_id, name, lifecycle_stage, artifact_location) "
            "VALUES (1, 'bench', 'active', 'mlflow-artifacts:/1')"
        )
        connection.executemany(
            "INSERT INTO runs (run_uuid, name, status, start_time, end_time, lifecycle_stage, "
            "experiment_id, artifact_uri, user_id, source_type) "
            "VALUES (?, ?, 'FINISHED', ?, ?, 'active', 1, '', 'me', 'LOCAL')",
            [(f"{n:032x}", f"r{n}", n, n + 1) for n, _, _ in _facts()],
        )
        for table in ("metrics", "latest_metrics"):
            connection.executemany(
                f"INSERT INTO {table} (key, value, timestamp, step, is_nan, run_uuid) "
                "VALUES ('auc', ?, ?, 0, 0, ?)",
                [(auc, n, f"{n:032x}") for n, auc, _ in _facts()],
            )
        connection.executemany(
            "INSERT INTO tags (key, value, run_uuid) VALUES ('team', ?, ?)",
            [(team, f"{n:032x}") for n, _, team in _facts()],
        )
        connection.execute("ANALYZE")


def _fill_ours(home: Path) -> str:
    """The id of an experiment with as many runs."""
    database = Database(f"sqlite:///{home / 'wherry.db'}")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with database.write() as connection:
        workspace = workspaces.get(connection, "default")
        experiment = workspaces.ensure_experiment(connection, workspace, "bench", at)
        common = {
            "workspace_id": workspace.id,
            "experiment_id": experiment.id,
            "status": "Completed",
            "submitted_by": "me",
            "submitted_at": at,
            "started_at": at,
            "ended_at": at,
        }
        for batch in batches(list(_facts()), 5000):
            ids = {f"{number:032x}": number for number, _, _ in batch}
            made = [
                {**common, "id": each, "root_id": each, "number": n + 1, "display_name": f"r{n}"}
                for each, n in ids.items()
            ]
            connection.execute(insert(runs), made)
            known = select(runs.c.seq, runs.c.number).where(runs.c.id.in_(ids))
            seqs = {number - 1: seq for seq, number in connection.execute(known)}
            connection.execute(insert(series), [_last(seqs, experiment.id, *f) for f in batch])
            connection.execute(
                insert(labels),
                [
                    {"run_seq": seqs[n], "kind": "tag", "key": "team", "value": team}
                    for n, _, team in batch
                ],
            )
    database.close()
    return experiment.id


def _last(seqs: dict[int, int], experiment: str, number: int, auc: float, _: str) -> dict[str, Any]:
    return {
        "run_seq": seqs[number],
        "experiment_id": experiment,
        "name": "auc",
        "kind": "scalar",
        "point_count": 0,
        "tail_seq": 0,
        "last_step": 0,
        "last_at": number,
        "last_value": auc,
        "newest_at": number,
    }


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _interpreter() -> str:
    """With MLflow's server and client, kept between calls."""
    folder = REPOSITORY / ".bench" / "mlflow"
    made = folder / "made"
    if not made.exists() or made.read_text() != MLFLOW:
        uv = shutil.which("uv") or str(REPOSITORY / ".tools" / "bin" / "uv")
        subprocess.run([uv, "venv", "-q", "--clear", "--python", PYTHON, folder], check=True)
        into = ["--python", str(folder / "bin" / "python")]
        subprocess.run([uv, "pip", "install", "-q", *into, MLFLOW], check=True)
        made.write_text(MLFLOW)
    return str(folder / "bin" / "python")


if __name__ == "__main__":
    print("measuring beside mlflow server ...", file=sys.stderr)
    print_table(rows())
