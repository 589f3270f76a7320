"""Compute targets, nodes, queues for nodes and costs, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from wherry.core.records import Workspace
from wherry.store import attempts, computes, costs, nodes, queues, runs, sites, workspaces
from wherry.store import tables as t
from wherry.store.database import Database

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TARGET = "w/cpu"


def add_compute(database: Database) -> Workspace:
    with database.write() as connection:
        workspace = workspaces.create(connection, "w", NOW, "", {})
        row = {
            "id": "c",
            "workspace_id": workspace.id,
            "name": "cpu",
            "target": TARGET,
            "type": "AmlCompute",
            "kind": "cluster",
            "config": {"max_nodes": 2},
            "tags": {},
            "provisioning_state": "Succeeded",
            "provisioning_errors": [],
            "created_at": NOW,
            "modified_at": NOW,
        }
        computes.add(connection, row)
    return workspace


def node(node_id: str, **fields: Any) -> dict[str, Any]:
    fixed = {"target": TARGET, "site": "lab", "state": nodes.IDLE, "config": {}, "gpus": []}
    amount = {"cpu": 1.0, "memory_bytes": 0, "size": "s", "price": 3.6}
    times = {"created_at": NOW, "state_since": NOW}
    return {"id": node_id, **fixed, **amount, **times, **fields}


def add_run(database: Database, workspace: Workspace, name: str, **fields: Any) -> None:
    with database.write() as connection:
        experiment = workspaces.ensure_experiment(connection, workspace, "e", NOW)
        row = {
            "id": name,
            "workspace_id": workspace.id,
            "experiment_id": experiment.id,
            "root_id": name,
            "number": 1,
            "status": "Queued",
            "target": TARGET,
            "submitted_at": NOW,
            **fields,
        }
        runs.add(connection, row, {}, {})


def test_a_target_is_found_locked_shared_and_changed(database: Database) -> None:
    workspace = add_compute(database)
    with database.write() as connection:
        assert computes.find(connection, TARGET, share=True) is not None
        assert computes.find(connection, TARGET, lock=True) is not None
        computes.change(connection, TARGET, {"stopped_at": NOW})
        assert [row.stopped_at for row in computes.of_workspace(connection, workspace)] == [NOW]
        assert computes.active_runs(connection, TARGET, 5) == []
        assert not computes.has_traces(connection, TARGET)
        computes.remove(connection, TARGET)
        assert computes.every(connection) == []


def test_a_queue_for_nodes_is_by_priority_then_by_age(database: Database) -> None:
    workspace = add_compute(database)
    for name, priority in (("a", 0), ("b", -5), ("c", 0), ("d", 7), ("e", 7)):
        add_run(database, workspace, name, priority=priority, node_count=2)
    with database.read() as connection:
        found = queues.head_for_nodes(connection, TARGET, 2, 10)
        assert [run.id for run in found] == ["d", "e", "a", "c", "b"]
        assert {run.node_count for run in found} == {2}
        first = queues.head_for_nodes(connection, TARGET, 2, 3)
        assert [run.id for run in first] == ["d", "e", "a"]
        assert queues.head_for_nodes(connection, TARGET, 1, 10) == []


def test_a_node_is_busy_while_an_attempt_on_it_goes_on(database: Database) -> None:
    workspace = add_compute(database)
    add_run(database, workspace, "a", limit_s=9.5)
    fields: dict[str, Any] = {"id": "t", "ready_by": NOW}
    fields |= {"run_id": "a", "number": 1, "target": TARGET, "gpus": []}
    fields |= {"cpu": 1.0, "memory_bytes": 0, "created_at": NOW, "node_id": "n", "rank": 0}
    with database.write() as connection:
        nodes.add(connection, [node("n")])
        nodes.add(connection, [node("m", removed_at=NOW)])
        connection.execute(t.attempts.insert(), fields)
        assert [each.id for each in nodes.present(connection, TARGET)] == ["n"]
        assert [each.id for each in sites.nodes_at(connection, "lab")] == ["n"]
        assert nodes.busy(connection, TARGET) == {"n": "a"}
        [held] = nodes.held(connection, TARGET)
        assert (held.id, held.run_id, held.limit_s, held.ready_by) == ("t", "a", 9.5, NOW)
        assert [row.run_id for row in costs.present(connection, workspace.id, of_runs=True)] == [
            "a"
        ]
        attempts.change(connection, "t", {"ended_at": NOW})
        assert nodes.busy(connection, TARGET) == {}
        assert nodes.has_traces(connection, TARGET, "n")
        attempts.change(connection, "t", {"released_at": NOW})
        assert not nodes.has_traces(connection, TARGET, "n")
        nodes.move(connection, "n", nodes.LEAVING, NOW, reason="idle")
        nodes.forget(connection, NOW + timedelta(days=1))
        assert nodes.find(connection, "m") is None
        nodes.forget_target(connection, TARGET)
        assert nodes.present(connection, TARGET) == []


def test_costs_add_up(database: Database) -> None:
    workspace = add_compute(database)
    with database.write() as connection:
        for _ in range(2):
            costs.add(connection, workspace.id, TARGET, "a", [("2026-01-02", 10.0, 1.0)])
        days = [("2026-01-02", 30.0, 3.0), ("2026-01-03", 5.0, 0.5)]
        costs.add(connection, workspace.id, TARGET, costs.WHOLE, days)
        [run] = costs.sums(connection, workspace.id, "run", of_runs=True)
        assert (run.run_id, run.node_seconds, run.cost) == ("a", 20.0, 2.0)
        [target] = costs.sums(connection, workspace.id, "target", of_runs=False)
        assert (target.node_seconds, target.cost) == (35.0, 3.5)
        assert [row.day for row in costs.sums(connection, workspace.id, "day", of_runs=False)] == [
            "2026-01-02",
            "2026-01-03",
        ]
