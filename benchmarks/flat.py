"""The same questions to stores of 100, 10,000 and 100,000 runs, on SQLite and on PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import os
import random
import statistics
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.caller import Caller
from benchmarks.measure import PYTHON, Row, scratch
from benchmarks.past import ELSEWHERE, WORKSPACE, Past, fill
from benchmarks.postgres import postgres
from wherry.blobs.folder import FolderLogStore
from wherry.control import run_logs

SIZES = (100, 10_000, 100_000)
ROUNDS = 31
AT_MOST = 1.3
_WORKSPACE = f"/api/v1/workspaces/{WORKSPACE}"
_LOG = b"epoch 1 loss 0.5\n" * 200


@dataclass
class Server:
    """One server over one store, and what is needed to ask it."""

    past: Past
    caller: Caller
    chance: random.Random
    snapshot_id: str = ""
    own_run: str = ""
    holder: str = ""
    offsets: dict[str, int] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        return self.caller.ask(method, path, body)

    def send(self, path: str, fields: dict[str, Any]) -> Any:
        return self.caller.send(path, fields)

    def run(self) -> str:
        return self.chance.choice(self.past.run_ids)

    def listing(self, query: str) -> bytes:
        return self.ask("GET", f"{_WORKSPACE}/runs?{query}")

    def search(self, words: str, query: str) -> bytes:
        return self.listing(f"filter={quote(words)}&{query}")

    def resolve(self, words: str) -> bytes:
        return self.ask("GET", f"{_WORKSPACE}/runs/resolve/{quote(words)}")


Question = Callable[[Server], object]


def _submit(server: Server) -> None:
    fields = {
        "experiment": "flat",
        "script": "noop.py",
        "snapshot_id": server.snapshot_id,
        "submission_key": uuid.uuid4().hex,
        "tags": {"model": "resnet"},
    }
    server.send(f"{_WORKSPACE}/runs", fields)


def _log_metric(server: Server) -> None:
    line = b'{"t":1700000000.5,"k":"scalar","n":"loss","v":0.25}\n'
    offset = server.offsets.get("metrics", 0)
    server.ask("POST", f"/api/v1/runs/{server.own_run}/spool/metrics?offset={offset}", line)
    server.offsets["metrics"] = offset + len(line)


def _read_log(server: Server) -> None:
    run_id = server.chance.choice(list(server.past.attempts))
    content = server.ask("GET", f"/api/v1/runs/{run_id}/logs/user_logs/std_log.txt")
    assert content == _LOG, "the log is not what was written"


def _compare(server: Server) -> None:
    for _ in range(2):
        run_id = server.run()
        server.ask("GET", f"/api/v1/runs/{run_id}")
        server.ask("GET", f"/api/v1/runs/{run_id}/metrics")


def _second_page(server: Server) -> None:
    first = json.loads(server.listing("limit=25"))
    server.listing(f"limit=25&cursor={first['next_cursor']}")


QUESTIONS: dict[str, Question] = {
    "submit": _submit,
    "list": lambda server: server.listing("limit=50"),
    "show": lambda server: server.ask("GET", f"/api/v1/runs/{server.run()}"),
    "log, read": _read_log,
    "log, a metric": _log_metric,
    "list, second page": _second_page,
    "list of an experiment": lambda server: server.listing(
        f"limit=1&experiment=experiment-{server.chance.randrange(40)}"
    ),
    "list by status Failed": lambda server: server.listing("limit=10&status=Failed"),
    "list what goes on": lambda server: server.listing(
        "limit=1&status=Queued&status=Starting&status=Preparing&status=Running"
        "&status=Finalizing&status=NotResponding&status=CancelRequested"
    ),
    "list by experiment and status": lambda server: server.listing(
        "limit=1&experiment=experiment-3&status=Completed"
    ),
    "list by a tag": lambda server: server.listing("limit=10&tag=model=bert"),
    "list by a rare tag": lambda server: server.listing("limit=2&tag=best=yes"),
    "list by two tags": lambda server: server.listing("limit=1&tag=model=gbm&tag=seed=7"),
    "list by target": lambda server: server.listing(f"limit=1&target={ELSEWHERE}"),
    "list of the archived": lambda server: server.listing("limit=1&archived=archived"),
    "list by end": lambda server: server.listing("limit=50&order_by=-ended_at"),
    "list the failed by end": lambda server: server.listing(
        "limit=10&order_by=-ended_at&status=Failed"
    ),
    "search by metric": lambda server: server.search(
        "metrics.loss > 1.5 and tags.model = 'bert'", "limit=1&experiment=experiment-3"
    ),
    "search by metric, best first": lambda server: server.search(
        "metrics.loss > 1.5 and tags.model = 'bert'",
        "limit=1&experiment=experiment-3&order_by=-metrics.loss",
    ),
    "search by metric that few have": lambda server: server.search(
        "metrics.loss > 99", "experiment=experiment-3&order_by=metrics.accuracy"
    ),
    "best of all experiments, with metrics": lambda server: server.search(
        "", "limit=10&order_by=-metrics.accuracy&include=metrics"
    ),
    "short id, beginning": lambda server: server.resolve(server.run()[:-3]),
    "short id, ending": lambda server: server.resolve(server.run().rpartition("_")[2]),
    "run by its name": lambda server: server.resolve(
        f"trial-{server.chance.randrange(server.past.size)}"
    ),
    "children of a run": lambda server: server.ask(
        "GET", f"/api/v1/runs/{server.chance.choice(server.past.parent_ids)}/children"
    ),
    "experiments": lambda server: server.ask("GET", f"{_WORKSPACE}/experiments"),
    "metrics of a run": lambda server: server.ask("GET", f"/api/v1/runs/{server.run()}/metrics"),
    "files of a run": lambda server: server.ask("GET", f"/api/v1/runs/{server.run()}/files"),
    "compare two runs": _compare,
    "Prometheus": lambda server: server.ask("GET", "/metrics"),
}


def rows() -> list[Row]:
    names = {size: f"runs{size}" for size in SIZES}
    found: list[Row] = []
    with scratch() as folder:
        urls = {size: f"sqlite:///{folder / name}.db" for size, name in names.items()}
        found += _measure("SQLite", folder / "sqlite", urls)
    with scratch() as folder, postgres(list(names.values())) as made:
        if made is None:
            return [*found, Row("PostgreSQL", "not installed")]
        urls = {size: made[name] for size, name in names.items()}
        found += _measure("PostgreSQL", folder / "postgres", urls)
    return found


def _measure(engine: str, folder: Path, urls: dict[int, str]) -> list[Row]:
    pasts = {size: fill(url, size) for size, url in urls.items()}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(_server(folder / str(size), url, pasts[size]))
            for size, url in urls.items()
        ]
        return [_row(engine, name, ask, servers) for name, ask in QUESTIONS.items()]


def _row(engine: str, name: str, ask: Question, servers: list[Server]) -> Row:
    """Medians over rounds in which the servers take turns."""
    taken: dict[int, list[float]] = {server.past.size: [] for server in servers}
    for turn in range(ROUNDS + 3):
        for server in servers[turn % 3 :] + servers[: turn % 3]:
            started = time.perf_counter()
            ask(server)
            if turn >= 3:
                taken[server.past.size].append(time.perf_counter() - started)
    few, more, many = (statistics.median(taken[size]) * 1000 for size in SIZES)
    return Row(
        f"{engine}: {name}",
        f"{many:.2f} ms with {SIZES[2]:,} runs ({more:.2f} with {SIZES[1]:,})",
        f"with {SIZES[0]}: {few:.2f} ms",
        f"{many / few:.2f}x",
        f"<= {AT_MOST:g}x",
        many / few <= AT_MOST,
    )


@contextmanager
def _server(home: Path, url: str, past: Past) -> Iterator[Server]:
    _write_logs(home, past)
    environment = {
        **os.environ,
        "WHERRY_HOME": str(home),
        "WHERRY_DATABASE_URL": url,
        "WHERRY_LOCAL_CPUS": "1",
    }
    process = subprocess.Popen(
        [PYTHON, "-m", "wherry.api"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        _await_start(home)
        server = Server(past, Caller(home), random.Random(1))
        _prepare(server)
        yield server
        server.ask("POST", f"/api/v1/runs/{server.holder}/cancel")
        server.ask("GET", f"/api/v1/runs/{server.holder}/wait?until=end&timeout_s=30")
    finally:
        process.terminate()
        process.wait(30)


def _await_start(home: Path) -> None:
    until = time.monotonic() + 60
    while not (home / "server.json").exists():
        if time.monotonic() > until:
            raise RuntimeError(f"the server of {home} did not start")
        time.sleep(0.05)
    time.sleep(0.2)


def _prepare(server: Server) -> None:
    """A snapshot to submit, a run to log into, and what keeps the submitted ones queued."""
    sources = {"noop.py": b"pass\n", "hold.py": b"import time; time.sleep(900)\n"}
    framed = b"".join(
        f"{hashlib.sha256(content).hexdigest()} {len(content)}\n".encode() + content
        for content in sources.values()
    )
    server.ask("POST", "/api/v1/blobs", framed)
    files = [
        {
            "path": path,
            "digest": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "mode": 0o644,
        }
        for path, content in sources.items()
    ]
    server.snapshot_id = server.send(f"{_WORKSPACE}/snapshots", {"files": files})["id"]
    hold = {"experiment": "flat", "script": "hold.py", "snapshot_id": server.snapshot_id}
    server.holder = server.send(f"{_WORKSPACE}/runs", hold)["id"]
    run = server.send(f"{_WORKSPACE}/runs/interactive", {"experiment": "flat"})
    server.own_run = run["id"]
    while json.loads(server.ask("GET", f"/api/v1/runs/{server.holder}"))["status"] != "Running":
        time.sleep(0.1)


def _write_logs(home: Path, past: Past) -> None:
    """Of the youngest runs."""
    home.mkdir(parents=True, mode=0o700)
    logs = FolderLogStore(home / "logs")
    for run_id, attempt_id in past.attempts.items():
        logs.append(run_logs.key(run_id, attempt_id), 0, _LOG)
