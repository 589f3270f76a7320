"""Compute targets and sites over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN, add_snapshot, run_fields
from wherry.api.app import create_app
from wherry.control import computes
from wherry.control.plane import Plane
from wherry.control.submit import submit
from wherry.store import tables

COMPUTES = "/api/v1/workspaces/w/computes"
CLUSTER = {"type": "AmlCompute", "config": {"max_nodes": 4}}
POOL = {"kind": "ssh", "config": {"hosts": ["one.lab", {"address": "two.lab", "port": 2222}]}}


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(create_app(plane, reconcile=False), headers=headers) as client:
        yield client


def test_a_cluster_is_made_shown_changed_and_deleted(client: TestClient) -> None:
    body = {**CLUSTER, "tags": {"a": "1"}, "description": "for all"}
    made = client.put(f"{COMPUTES}/cpu-cluster", json=body)
    assert made.status_code == 201
    record = made.json()
    assert record == client.get(f"{COMPUTES}/cpu-cluster").json()
    assert (record["name"], record["type"], record["kind"]) == (
        "cpu-cluster",
        "AmlCompute",
        "cluster",
    )
    assert record["location"] == "local"
    assert record["provisioning_state"] == "Succeeded"
    assert record["problem"] is None
    status = record["status"]
    assert status["current_node_count"] == status["target_node_count"] == 0
    assert set(status["node_state_counts"].values()) == {0}
    assert status["allocation_state"] == "Steady"
    assert status["scale_settings"] == {"min_nodes": 0, "max_nodes": 4, "idle_seconds": 120}
    changed = client.patch(
        f"{COMPUTES}/cpu-cluster",
        json={"config": {"max_nodes": "6"}, "tags": {"b": "2"}, "remove_tags": ["a"]},
    ).json()
    assert changed["config"]["max_nodes"] == 6
    assert changed["tags"] == {"b": "2"}
    assert changed["description"] == "for all"
    assert client.delete(f"{COMPUTES}/cpu-cluster").status_code == 204
    assert client.get(f"{COMPUTES}/cpu-cluster").status_code == 404


def test_the_same_again_is_the_same_and_another_is_refused(client: TestClient) -> None:
    assert client.put(f"{COMPUTES}/cpu", json=CLUSTER).status_code == 201
    assert client.put(f"{COMPUTES}/cpu", json=CLUSTER).status_code == 200
    other = {**CLUSTER, "config": {"max_nodes": 5}}
    refused = client.put(f"{COMPUTES}/cpu", json=other)
    assert refused.status_code == 409
    assert "exists already" in refused.json()["detail"]
    assert client.get(f"{COMPUTES}/cpu").json()["config"]["max_nodes"] == 4


def test_who_made_one_is_kept(client: TestClient, plane: Plane) -> None:
    body = {"type": "ComputeInstance", "config": {}}
    made = client.put("/api/v1/workspaces/w/computes/nb", json=body).json()
    assert made["created_by"] == "owner"
    again = computes.put(plane, "w", "nb", body, "somebody else")[0]
    assert again["created_by"] == "owner"


def test_this_machine_is_among_them(client: TestClient) -> None:
    client.put(f"{COMPUTES}/cpu", json=CLUSTER)
    listed = client.get(COMPUTES).json()["items"]
    assert [each["name"] for each in listed] == ["local", "cpu"]
    assert set(listed[0]) == set(listed[1])
    assert listed[0]["kind"] == "local"
    assert listed[0]["nodes"][0]["state"] == "idle"
    assert [each["waiting"] for each in listed] == [0, 0]
    assert client.delete(f"{COMPUTES}/local").status_code == 409


def test_workspaces_have_their_own(client: TestClient) -> None:
    client.post("/api/v1/workspaces", json={"name": "v"})
    client.put(f"{COMPUTES}/cpu", json=CLUSTER)
    elsewhere = COMPUTES.replace("/w/", "/v/")
    assert client.get(f"{elsewhere}/cpu").status_code == 404
    assert client.put(f"{elsewhere}/cpu", json=CLUSTER).status_code == 201
    refused = client.delete("/api/v1/workspaces/v")
    assert refused.status_code == 409
    assert "compute target 'cpu'" in refused.json()["detail"]


@pytest.mark.parametrize(
    "name", ["local", "amlcompute", "AmlCompute", "containerinstance", "x", "1a", "a_b", "a-", "ä1"]
)
def test_names_that_azure_refuses_are_refused(client: TestClient, name: str) -> None:
    refused = client.put(f"{COMPUTES}/{name}", json=CLUSTER)
    assert refused.status_code == 400, refused.text
    assert refused.json()["hint"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"type": "AmlCompute", "config": {}}, "max nodes count is mandatory"),
        (
            {"type": "AmlCompute", "config": {"max_nodes": 1, "min_nodes": 2}},
            "max nodes count must be greater than or equal to min nodes count",
        ),
        ({"type": "AmlCompute", "config": {"max_nodes": "many"}}, "max_nodes is 'many'"),
        ({"type": "AmlCompute", "config": {"max_node": 1}}, "did you mean 'max_nodes'?"),
        (
            {"type": "AmlCompute", "config": {"max_nodes": 1, "vm_priority": "high"}},
            "vm_priority is 'high'",
        ),
        (
            {"type": "AmlCompute", "config": {"max_nodes": 1, "location": "moon"}},
            "there is no site 'moon'",
        ),
        ({"type": "AKS", "config": {}}, "no compute targets of type 'AKS'"),
        ({"type": "AmlCompute", "kind": "machine", "config": {"max_nodes": 1}}, "is a cluster"),
        ({"type": "VirtualMachine", "config": {}}, "names no machine"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    client: TestClient, body: dict[str, Any], said: str
) -> None:
    refused = client.put(f"{COMPUTES}/cpu", json=body)
    assert refused.status_code == 400, refused.text
    assert said in refused.json()["detail"]
    assert client.get(f"{COMPUTES}/cpu").status_code == 404


def test_a_region_of_azure_means_this_machine_and_says_so(client: TestClient) -> None:
    body = {"type": "AmlCompute", "config": {"max_nodes": "4", "location": "West US 2"}}
    record = client.put(f"{COMPUTES}/cpu", json=body).json()
    assert record["location"] == "local"
    assert "region of Azure" in record["notices"][0]


def test_a_cluster_with_runs_is_deleted_only_if_that_is_meant(
    client: TestClient, plane: Plane
) -> None:
    client.put(f"{COMPUTES}/cpu", json=CLUSTER)
    run_id = _queued(plane)
    assert client.get(f"{COMPUTES}/cpu").json()["waiting"] == 1
    refused = client.delete(f"{COMPUTES}/cpu")
    assert refused.status_code == 409
    assert run_id in refused.json()["detail"]
    active = client.get(f"{COMPUTES}/cpu/runs").json()["items"]
    assert [run["id"] for run in active] == [run_id]
    assert active[0]["target"] == "cpu"
    assert client.delete(f"{COMPUTES}/cpu?cancel=true").status_code == 204
    assert client.get(f"/api/v1/runs/{run_id}").json()["status"] == "Canceled"
    assert client.get("/api/v1/workspaces/w/runs?target=cpu").json()["items"][0]["id"] == run_id


def _queued(plane: Plane) -> str:
    """A run that waits for the cluster."""
    run, _ = submit(plane, "w", run_fields(add_snapshot(plane, {"train.py": b""})), "me")
    with plane.write() as connection:
        connection.execute(tables.runs.update().values(target="w/cpu"))
    return run.id


def test_a_stopped_target_says_so(client: TestClient) -> None:
    client.put(f"{COMPUTES}/cpu", json=CLUSTER)
    assert client.post(f"{COMPUTES}/cpu/stop").json()["state"] == "Stopped"
    assert client.post(f"{COMPUTES}/cpu/start").json()["state"] == "Running"


def test_secrets_are_never_given_back(client: TestClient, plane: Plane) -> None:
    body = {
        "type": "VirtualMachine",
        "config": {"address": "one.lab", "username": "me", "port": "22"},
        "secrets": {"password": "hunter2"},
    }
    made = client.put(f"{COMPUTES}/vm", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["config"]["port"] == 22
    assert client.put("/api/v1/sites/lab", json={**POOL, "secrets": {"password": "hunter2"}})
    told = made.text + client.get(COMPUTES).text + client.get("/api/v1/sites").text
    assert "hunter2" not in told
    with plane.database.read() as connection:
        for table in (tables.computes, tables.sites):
            kept = connection.execute(table.select()).one()
            assert "hunter2" not in str(kept)
            assert kept.secrets


def test_secrets_of_another_key_are_given_anew(client: TestClient, plane: Plane) -> None:
    body = {
        "type": "VirtualMachine",
        "config": {"address": "one.lab"},
        "secrets": {"password": "x"},
    }
    client.put(f"{COMPUTES}/vm", json=body)
    plane.secret = b"another"
    refused = client.post(f"{COMPUTES}/vm/check")
    assert refused.status_code == 400
    assert "sealed with another key" in refused.json()["detail"]
    again = client.patch(f"{COMPUTES}/vm", json={"secrets": {"password": "y"}})
    assert again.status_code == 200
    assert again.json()["provisioning_state"] == "Creating"


def test_a_pool_of_hosts_is_a_site(client: TestClient) -> None:
    made = client.put("/api/v1/sites/lab", json=POOL)
    assert made.status_code == 201, made.text
    assert [host["port"] for host in made.json()["config"]["hosts"]] == [22, 2222]
    assert client.put("/api/v1/sites/lab", json=POOL).status_code == 200
    assert [each["name"] for each in client.get("/api/v1/sites").json()["items"]] == [
        "local",
        "lab",
    ]
    config = {"max_nodes": 2, "location": "lab"}
    assert client.put(f"{COMPUTES}/cpu", json={**CLUSTER, "config": config}).status_code == 201
    assert client.delete("/api/v1/sites/lab").status_code == 409
    assert client.delete(f"{COMPUTES}/cpu").status_code == 204
    assert client.delete("/api/v1/sites/lab").status_code == 204
    assert client.get("/api/v1/sites/lab").status_code == 404


def test_a_site_of_another_kind_has_no_hosts(client: TestClient) -> None:
    boxes = {"kind": "container", "config": {}}
    assert client.put("/api/v1/sites/boxes", json=boxes).status_code == 201
    changed = client.patch("/api/v1/sites/boxes", json={"config": {"cores": 1}})
    assert changed.status_code == 200, changed.text
    assert changed.json()["hosts"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "slurm", "config": {}}, 400),
        ({"kind": "ssh", "config": {}}, 400),
        ({"kind": "ssh", "config": {"hosts": ["a", "a"]}}, 400),
        ({"kind": "ssh", "config": {"hosts": [{"adress": "a"}]}}, 400),
        ({"kind": "ssh", "config": {"hosts": [5]}}, 400),
    ],
)
def test_a_site_that_cannot_be_is_refused(
    client: TestClient, body: dict[str, Any], status: int
) -> None:
    assert client.put("/api/v1/sites/lab", json=body).status_code == status
    assert client.put("/api/v1/sites/local", json=POOL).status_code == 409


def test_no_cluster_is_made_at_a_site_that_goes_meanwhile(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.put("/api/v1/sites/lab", json=POOL)
    check = computes._check_site

    def late(*arguments: Any) -> None:
        check(*arguments)
        assert client.delete("/api/v1/sites/lab").status_code == 204

    monkeypatch.setattr(computes, "_check_site", late)
    body = {"type": "AmlCompute", "config": {"max_nodes": 1, "location": "lab"}}
    refused = client.put(f"{COMPUTES}/pool", json=body)
    assert refused.status_code == 400
    assert refused.json()["detail"] == "location is 'lab': there is no site 'lab'"
    assert client.get(f"{COMPUTES}/pool").status_code == 404


def test_what_there_is_is_named_as_far_as_anyone_would_read(client: TestClient) -> None:
    for number in range(25):
        client.put(f"{COMPUTES}/made-{number}", json=CLUSTER)
    hint = client.get(f"{COMPUTES}/other").json()["hint"]
    assert hint.startswith("the targets are: local, made-0, ")
    assert hint.endswith(" and 6 more")
