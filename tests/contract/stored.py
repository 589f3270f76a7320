"""Runs in a store, without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from wherry.store import runs, workspaces
from wherry.store.database import Database

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def add_run(database: Database, run_id: str, **fields: Any) -> None:
    tags, properties = fields.pop("tags", {}), fields.pop("properties", {})
    experiment_name = fields.pop("experiment", "e")
    with database.write() as connection:
        workspace = workspaces.find(connection, "w") or workspaces.create(
            connection, "w", NOW, "", {}
        )
        experiment = workspaces.ensure_experiment(connection, workspace, experiment_name, NOW)
        row = {
            "id": run_id,
            "workspace_id": workspace.id,
            "experiment_id": experiment.id,
            "root_id": run_id,
            "number": workspaces.next_number(connection, experiment),
            "status": "Queued",
            "target": "local",
            "cpu": 1.0,
            "submitted_at": NOW,
            **fields,
        }
        runs.add(connection, row, tags, properties)
