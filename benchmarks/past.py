"""A store with a past: runs by the thousand, written straight into the database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from wherry.store import workspaces
from wherry.store.database import Database, batches
from wherry.store.migrate import migrate
from wherry.store.tables import runs

WORKSPACE = "bench"
EXPERIMENTS = 40
# No driver of this name is there, so that what is queued and running stays so.
ELSEWHERE = "gpu-cluster"
_START = datetime(2025, 1, 1, tzinfo=UTC)
_CHILDREN_PER_PARENT = 20

# What every run has besides its row, made from the rows by the database itself.
_BESIDES = (
    """INSERT INTO run_labels (run_seq, kind, key, value)
    SELECT seq, 'tag', 'model', CASE seq % 5 WHEN 0 THEN 'resnet' WHEN 1 THEN 'bert'
      WHEN 2 THEN 'gbm' WHEN 3 THEN 'linear' ELSE 'mlp' END FROM runs""",
    """INSERT INTO run_labels (run_seq, kind, key, value)
    SELECT seq, 'tag', 'seed', CAST(seq % 20 AS VARCHAR(9)) FROM runs""",
    """INSERT INTO run_labels (run_seq, kind, key, value)
    SELECT seq, 'tag', 'best', 'yes' FROM runs WHERE number = 1 AND seq < 20""",
    """INSERT INTO run_labels (run_seq, kind, key, value)
    SELECT seq, 'property', 'ContentSnapshotId', snapshot_id FROM runs""",
    """INSERT INTO attempts (id, run_id, number, target, handle, stage, phase, detail, cpu,
      memory_bytes, gpus, created_at, heartbeat_at, ended_at, released_at)
    SELECT replace(display_name, 'trial', 'attempt'), id, 1, target, 'h', 'exited', 'exited',
      '', 1, 0, '[]', submitted_at, submitted_at, ended_at, ended_at
      FROM runs WHERE status <> 'Queued'""",
    """INSERT INTO events (run_id, at, from_status, to_status, reason, message)
    SELECT id, submitted_at, NULL, 'Queued', NULL, '' FROM runs""",
    """INSERT INTO events (run_id, at, from_status, to_status, reason, message)
    SELECT id, started_at, 'Queued', 'Starting', NULL, '' FROM runs
      WHERE started_at IS NOT NULL""",
    """INSERT INTO events (run_id, at, from_status, to_status, reason, message)
    SELECT id, started_at, 'Starting', 'Running', NULL, '' FROM runs
      WHERE started_at IS NOT NULL""",
    """INSERT INTO events (run_id, at, from_status, to_status, reason, message)
    SELECT id, ended_at, 'Running', status, NULL, '' FROM runs WHERE ended_at IS NOT NULL""",
    """INSERT INTO files (run_id, path, digest, size_bytes, modified_at)
    SELECT id, 'outputs/model.pt', snapshot_id, 1000, submitted_at FROM runs""",
    """INSERT INTO metrics (run_id, name, kind, point_count)
    SELECT id, 'loss', 'scalar', 5 FROM runs""",
    """INSERT INTO metrics (run_id, name, kind, point_count)
    SELECT id, 'accuracy', 'scalar', 5 FROM runs""",
    """INSERT INTO metric_points (metric_id, seq, at, step, value)
    SELECT metrics.id, n.seq, 1700000000000000, n.seq, 0.5 * n.seq + (metrics.id % 997) / 1000.0
      FROM metrics, (SELECT 0 AS seq UNION SELECT 1 UNION SELECT 2 UNION SELECT 3
        UNION SELECT 4) AS n""",
)


@dataclass(frozen=True)
class Past:
    """What a question may name: ended runs, parents, and the youngest with their attempts."""

    size: int
    run_ids: list[str]
    parent_ids: list[str]
    attempts: dict[str, str]


def fill(url: str, size: int) -> Past:
    """A migrated database with ``size`` runs: experiments, statuses, labels, children, metrics."""
    database = Database(url)
    migrate(database, "0002")
    with database.write() as connection:
        workspace = workspaces.create(connection, WORKSPACE, _START, "", {})
        names = [f"experiment-{number}" for number in range(EXPERIMENTS)]
        experiments = [
            workspaces.ensure_experiment(connection, workspace, name, _START) for name in names
        ]
        rows = list(_rows(size, workspace.id, [(each.id, each.name) for each in experiments]))
        for batch in batches(rows, 5000):
            connection.execute(runs.insert(), batch)
        connection.execute(
            text(
                "UPDATE experiments SET run_count = "
                "(SELECT count(*) FROM runs WHERE experiment_id = experiments.id)"
            )
        )
        for statement in _BESIDES:
            connection.execute(text(statement))
    migrate(database)  # so each benchmark also tries the way from the version before
    _settle(database)
    database.close()
    ended = [row for row in rows if row["ended_at"] is not None]
    parents = {row["parent_id"] for row in rows if row["parent_id"]}
    youngest = {row["id"]: row["display_name"].replace("trial", "attempt") for row in ended[-50:]}
    return Past(size, [row["id"] for row in ended], sorted(parents), youngest)


def _rows(
    size: int, workspace_id: str, experiments: list[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    chance = random.Random(size)
    parent: str | None = None
    for number in range(size):
        experiment_id, experiment = experiments[chance.randrange(len(experiments))]
        at = _START + timedelta(seconds=300 * number)
        run_id = f"{experiment}_{int(at.timestamp())}_{chance.getrandbits(32):08x}"
        place = number % (_CHILDREN_PER_PARENT * 5)  # a fifth of all runs are children
        if place == 0:
            parent = run_id
        child_of = parent if 0 < place <= _CHILDREN_PER_PARENT else None
        status = _status(number, chance)
        snapshot = f"{chance.getrandbits(256):064x}"
        yield {
            "id": run_id,
            "workspace_id": workspace_id,
            "experiment_id": experiment_id,
            "parent_id": child_of,
            "root_id": child_of or run_id,
            "number": number // EXPERIMENTS + 1,
            "type": "azureml.scriptrun",
            "display_name": f"trial-{number}",
            "status": status,
            "target": "local" if status in {"Completed", "Failed", "Canceled"} else ELSEWHERE,
            "spec": _spec(experiment, number, snapshot),
            "cpu": 1.0,
            "snapshot_id": snapshot,
            "submission_key": f"{chance.getrandbits(128):032x}",
            "submitted_by": "owner",
            "submitted_at": at,
            "started_at": None if status == "Queued" else at + timedelta(seconds=2),
            "ended_at": None if status in {"Queued", "Running"} else at + timedelta(seconds=90),
            "archived_at": at if chance.random() < 0.02 else None,
            "attempt_count": 0 if status == "Queued" else 1,
            "version": 3,
        }


def _status(number: int, chance: random.Random) -> str:
    if number % 500 in {7, 8}:
        return "Queued" if number % 500 == 7 else "Running"
    return chance.choices(["Completed", "Failed", "Canceled"], [80, 13, 7])[0]


def _spec(experiment: str, number: int, snapshot: str) -> dict[str, Any]:
    return {
        "experiment": experiment,
        "target": "local",
        "script": "train.py",
        "arguments": ["--learning-rate", "0.001", "--batch-size", "64", "--trial", str(number)],
        "snapshot_id": snapshot,
        "environment": {"name": "", "python": {"interpreter_path": ""}},
        "resources": {"cpu": 1.0, "memory_bytes": 0, "gpu": 0},
        "tags": {"model": "resnet", "seed": "1"},
    }


def _settle(database: Database) -> None:
    """What PostgreSQL's own housekeeping has done by the time a store is this large."""
    if database.is_sqlite:
        return
    engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        _vacuum(connection)


def _vacuum(connection: Connection) -> None:
    connection.execute(text("VACUUM ANALYZE"))
