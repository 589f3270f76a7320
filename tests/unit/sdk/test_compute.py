"""Compute targets as Azure ML's classes have them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import wherry.compute
from wherry import (
    ComputeTargetException,
    ConflictError,
    NotFoundError,
    Resources,
    RunConfiguration,
    ScriptRunConfig,
    UserErrorException,
    Workspace,
)
from wherry.compute import AmlCompute, BatchAiCompute, ComputeTarget, DsvmCompute, RemoteCompute
from wherry.sdk.compute import waiting
from wherry.sdk.compute.configuration import ComputeTargetProvisioningConfiguration

from .fake_computes import AT, set_nodes
from .fake_server import FakeServer

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PAUSE_S", 0.01)
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE_S", 0.02)


def cluster(workspace: Workspace, name: str = "cpu-cluster", **options: Any) -> AmlCompute:
    options = {"vm_size": "STANDARD_D2_V2", "max_nodes": 4, **options}
    config = AmlCompute.provisioning_configuration(**options)
    made = ComputeTarget.create(workspace, name, config)
    assert isinstance(made, AmlCompute)
    return made


def test_the_names_of_the_module() -> None:
    for name in wherry.compute.__all__:
        assert getattr(wherry.compute, name) is getattr(wherry, name)
    with pytest.raises(AttributeError, match="no attribute 'AksCompute'"):
        _ = wherry.compute.AksCompute


def test_targets_by_name(workspace: Workspace) -> None:
    targets = workspace.compute_targets
    assert list(targets) == list(workspace.compute_targets()) == ["local"]
    local = targets["local"]
    assert type(local) is ComputeTarget
    assert (local.name, local.type, local.status) == ("local", "local", "Ready")
    assert local.resources == Resources(4.0, 8_000_000_000, 0)
    assert "4 CPUs" in local._repr_html_()
    with pytest.raises(AttributeError):
        local.name = "other"  # type: ignore[misc]
    with pytest.raises(UserErrorException, match="always there"):
        local.delete()


def test_one_that_is_not_there(workspace: Workspace) -> None:
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget(workspace, "locla")
    assert (
        "ComputeTargetNotFound: Compute Target with name locla not found in provided workspace"
        in caught.value.message
    )
    assert "did you mean 'local'?" in caught.value.message
    nowhere = Workspace(
        workspace_name="none", _disable_service_check=True, _client=workspace._client
    )
    with pytest.raises(NotFoundError, match="no workspace 'none'"):
        ComputeTarget(nowhere, "local")


def test_the_class_follows_the_type(workspace: Workspace) -> None:
    cluster(workspace)
    assert type(ComputeTarget(workspace, "cpu-cluster")) is AmlCompute
    assert type(ComputeTarget(workspace=workspace, name="cpu-cluster")) is AmlCompute
    assert ComputeTarget(workspace, "cpu-cluster") == AmlCompute(workspace, "cpu-cluster")
    with pytest.raises(ComputeTargetException, match="type AmlCompute, and no BatchAiCompute"):
        BatchAiCompute(workspace, "cpu-cluster")


def test_a_cluster_is_made_waited_for_and_changed(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cluster(workspace, tags={"team": "churn"}, description="for all", location="eastus")
    assert fake.computes["cpu-cluster"]["config"] == {
        "location": "eastus",
        "vm_size": "STANDARD_D2_V2",
        "vm_priority": "dedicated",
        "min_nodes": 0,
        "max_nodes": 4,
        "idle_seconds": 1800,
    }
    made.wait_for_completion(show_output=True)
    out, err = capsys.readouterr()
    assert out == (
        "Succeeded\nAmlCompute wait for completion finished\n\n"
        "Minimum number of nodes requested have been provisioned\n"
    )
    assert err == "wherry: eastus is a region of Azure\n"
    assert (made.tags, made.description) == ({"team": "churn"}, "for all")
    assert (made.created_on, made.modified_on) == (AT, AT)
    assert (made.vm_size, made.vm_priority) == ("STANDARD_D2_V2", "Dedicated")
    assert made.scale_settings.maximum_node_count == 4
    assert repr(made).endswith(
        "type=AmlCompute, provisioning_state=Succeeded, location=eastus, tags={'team': 'churn'})"
    )
    made.update(min_nodes="1", idle_seconds_before_scaledown=60, tags={"a": "b"})
    config = fake.computes["cpu-cluster"]["config"]
    assert (config["min_nodes"], config["max_nodes"], config["idle_seconds"]) == (1, 4, 60)
    assert made.tags == {"a": "b"}
    assert [size["name"] for size in AmlCompute.supported_vmsizes(workspace)] == ["local-2"]


def test_default_targets(workspace: Workspace) -> None:
    assert workspace.get_default_compute_target("CPU") is None
    made = cluster(workspace, workspace.DEFAULT_CPU_CLUSTER_NAME)
    assert workspace.get_default_compute_target("cpu") == made
    assert workspace.get_default_compute_target("GPU") is None
    with pytest.raises(UserErrorException, match="no default target of type 'TPU'"):
        workspace.get_default_compute_target("TPU")


def test_the_status_of_both_eras(workspace: Workspace, fake: FakeServer) -> None:
    made = cluster(workspace, vm_priority="lowpriority")
    set_nodes(fake.computes["cpu-cluster"], idle=1, running=1)
    status = made.get_status()
    assert status.serialize() == {
        "currentNodeCount": 2,
        "targetNodeCount": 2,
        "nodeStateCounts": {
            "preparingNodeCount": 0,
            "runningNodeCount": 1,
            "idleNodeCount": 1,
            "unusableNodeCount": 0,
            "leavingNodeCount": 0,
            "preemptedNodeCount": 0,
        },
        "allocationState": "Steady",
        "allocationStateTransitionTime": AT,
        "errors": None,
        "creationTime": AT,
        "modifiedTime": AT,
        "provisioningState": "Succeeded",
        "provisioningStateTransitionTime": None,
        "scaleSettings": {
            "minNodeCount": 0,
            "maxNodeCount": 4,
            "nodeIdleTimeBeforeScaleDown": "PT1800S",
        },
        "vmPriority": "LowPriority",
        "vmSize": "STANDARD_D2_V2",
    }
    assert status.node_state_counts.idle_node_count == 1
    nodes = made.list_nodes()
    assert [(each["nodeState"], each["runId"]) for each in nodes] == [
        ("running", "r_1"),
        ("idle", None),
    ]
    assert (nodes[0]["publicIpAddress"], nodes[0]["port"]) == ("10.0.0.4", 22)

    old = ComputeTarget.create(
        workspace,
        "old",
        BatchAiCompute.provisioning_configuration("STANDARD_NC6", "lowpriority", True, "1", "3"),
    )
    assert old.status.serialize() == {
        "allocationState": "steady",
        "allocationStateTransitionTime": AT,
        "creationTime": AT,
        "currentNodeCount": 1,
        "errors": None,
        "nodeStateCounts": {
            "idleNodeCount": 1,
            "leavingNodeCount": 0,
            "preparingNodeCount": 0,
            "runningNodeCount": 0,
            "unusableNodeCount": 0,
        },
        "provisioningState": "succeeded",
        "provisioningStateTransitionTime": None,
        "scaleSettings": {
            "manual": None,
            "autoScale": {"maximumNodeCount": 3, "minimumNodeCount": 1, "initialNodeCount": 1},
        },
        "vmPriority": "lowpriority",
        "vmSize": "STANDARD_NC6",
    }


def test_batch_ai_without_autoscale() -> None:
    config = BatchAiCompute.provisioning_configuration(
        autoscale_enabled="False", cluster_max_nodes=3
    )
    assert (config.min_nodes, config.max_nodes) == (3, 3)
    with pytest.raises(ComputeTargetException, match="autoscale_enabled is 'perhaps'"):
        BatchAiCompute.provisioning_configuration(autoscale_enabled="perhaps")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "max nodes count is mandatory"),
        ({"max_nodes": 1, "min_nodes": 2}, "max nodes count must be greater than or equal to"),
        ({"max_nodes": "many"}, "max_nodes is 'many', and must be a whole number"),
        ({"max_nodes": -1}, "max_nodes is -1"),
        ({"max_nodes": 1.5}, "max_nodes is 1.5"),
        ({"max_nodes": 1, "vm_priority": "cheap"}, "vm_priority is 'cheap'"),
    ],
)
def test_what_cannot_be_a_cluster(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ComputeTargetException, match=sentence):
        AmlCompute.provisioning_configuration(**options)


@pytest.mark.parametrize("name", ["local", "AmlCompute", "containerinstance", "a b", ""])
def test_names_that_cannot_be(workspace: Workspace, name: str) -> None:
    with pytest.raises(UserErrorException, match=r"reserved|not a valid compute target name"):
        cluster(workspace, name)


def test_a_wrong_configuration(workspace: Workspace) -> None:
    for wrong in ({"vm_size": "a"}, ComputeTargetProvisioningConfiguration()):
        with pytest.raises(ComputeTargetException, match="Invalid provisioning configuration"):
            ComputeTarget.create(workspace, "x", wrong)
    with pytest.raises(ComputeTargetException, match="Invalid attach configuration object"):
        ComputeTarget.attach(workspace, "x", AmlCompute.provisioning_configuration(max_nodes=1))


def test_the_wait_shows_how_the_cluster_grows(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cluster(workspace, min_nodes=2)
    record = fake.computes["cpu-cluster"]
    record["provisioning_state"] = "Creating"
    set_nodes(record, preparing=2)
    seen = threading.Event()

    def grow() -> None:
        seen.wait(10)
        record["provisioning_state"] = "Succeeded"
        set_nodes(record, idle=1, preparing=1)
        while fake.count("GET .*cpu-cluster") < 4:
            seen.wait(0.01)
        set_nodes(record, idle=2)

    thread = threading.Thread(target=grow)
    thread.start()
    seen.set()
    made.wait_for_completion(show_output=True)
    thread.join()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == [
        "Waiting for cluster to scale. 1 out of 2 nodes ready.",
        "AmlCompute wait for completion finished",
        "",
        "Minimum number of nodes requested have been provisioned",
    ]


def test_a_wait_that_is_too_short_says_so(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cluster(workspace)
    fake.computes["cpu-cluster"]["problem"] = "the pool has no host left"
    made.wait_for_completion(show_output=True, min_node_count="1", timeout_in_minutes=0)  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert out.endswith(
        "Wait timeout has been reached\n"
        'Current provisioning state of AmlCompute is "Succeeded" and current node count is "0"\n'
    )
    assert err == "wherry: cpu-cluster: the pool has no host left\n"


def test_a_cluster_that_cannot_be(workspace: Workspace, fake: FakeServer) -> None:
    made = cluster(workspace, min_nodes=1)
    record = fake.computes["cpu-cluster"]
    set_nodes(record, unusable=1)
    record["status"]["errors"] = ["node a would not start: no disk"]
    with pytest.raises(ComputeTargetException, match="reported from AmlCompute:\nnode a would not"):
        made.wait_for_completion()
    record.update(provisioning_state="Failed", provisioning_errors=["there is no site 'x'"])
    with pytest.raises(ComputeTargetException) as caught:
        made.wait_for_completion()
    assert "current provisioning state: Failed" in caught.value.message
    assert caught.value.message.endswith("there is no site 'x'")
    assert made.provisioning_errors == ["there is no site 'x'"]


def test_delete_with_active_runs(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cluster(workspace)
    run = fake.new_run("lab", {"experiment": "e", "tags": {"a": "b"}}, target="cpu-cluster")
    assert [each.id for each in made.get_active_runs()] == [run["id"]]
    assert [each.id for each in made.get_active_runs(tags={"a": "b"})] == [run["id"]]
    assert list(made.get_active_runs(tags="b")) == []
    assert list(made.get_active_runs(status="Running")) == []
    with pytest.raises(ConflictError, match="has active runs"):
        made.delete()
    made.delete(cancel_active_runs=True)
    assert made.provisioning_state == "Deleting"
    made.wait_for_completion(show_output=True, is_delete_operation=True)
    assert capsys.readouterr().out == (
        'Deleting\nProvisioning operation finished, operation "Succeeded"\n'
    )
    assert "cpu-cluster" not in workspace.compute_targets
    with pytest.raises(ComputeTargetException, match="Detach is not supported for AmlCompute obj"):
        made.detach()


def test_what_else_a_cluster_can_do(workspace: Workspace, fake: FakeServer) -> None:
    made = cluster(workspace)
    made.stop()
    made.start()
    made.restart()
    made.simulate_eviction("n1")
    assert [what for _, what, _ in fake.acts] == ["stop", "start", "restart", "evict"]
    assert fake.acts[-1][2] == {"node": "n1"}
    assert [site["name"] for site in workspace.get_sites()] == ["local"]
    assert workspace.get_costs("day") == [{"day": "x", "node_seconds": 90.0, "cost": 0.5}]


def test_serialize_and_back(workspace: Workspace, fake: FakeServer) -> None:
    made = cluster(workspace, tags={"a": "b"})
    fields = json.loads(json.dumps(made.serialize()))
    assert set(fields) - {"properties"} == {
        "id",
        "name",
        "location",
        "type",
        "tags",
        "description",
        "created_on",
        "modified_on",
        "provisioning_state",
        "provisioning_errors",
    }
    asked = len(fake.requests)
    again = ComputeTarget.deserialize(workspace, fields)
    assert len(fake.requests) == asked
    assert type(again) is AmlCompute
    assert again.serialize() == made.serialize()
    assert again.status.serialize() == made.status.serialize()
    with pytest.raises(ComputeTargetException, match="has no 'name'"):
        AmlCompute.deserialize(workspace, {"type": "AmlCompute"})
    with pytest.raises(ComputeTargetException, match="and no BatchAiCompute"):
        BatchAiCompute.deserialize(workspace, fields)


def test_a_machine_is_attached_as_in_the_first_versions(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = RemoteCompute.attach(
        workspace,
        name="attach-dsvm",
        username="me",
        address="node1.lab",
        ssh_port=22,
        password="geheim",
    )
    made.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == (
        'Succeeded\nProvisioning operation finished, operation "Succeeded"\n'
    )
    assert fake.secrets["attach-dsvm"] == {"password": "geheim"}
    assert "geheim" not in f"{made.serialize()} {made!r}"
    assert (made.type, made.is_attached, made.get_status()) == ("VirtualMachine", True, "Succeeded")
    assert (made.address, made.ssh_port, made.username) == ("node1.lab", 22, "me")
    assert made.check()["version"] == "3.11.2"
    fake.computes["attach-dsvm"]["problem"] = "nothing listens at port 22"
    with pytest.raises(ComputeTargetException, match="nothing listens at port 22"):
        made.check()
    with pytest.raises(ComputeTargetException, match="stay with the server"):
        made.get_credentials()
    made.detach()
    made.wait_for_completion(is_delete_operation=True)
    assert list(workspace.compute_targets) == ["local"]


def test_a_machine_is_attached_with_a_key(
    workspace: Workspace, fake: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY)
    config = RemoteCompute.attach_configuration(
        username="me",
        address="node1.lab",
        ssh_port="2222",
        private_key_file=tmp_path / "key",
        private_key_passphrase="pp",
        jump="gate.lab",
    )
    assert "pp" not in repr(config)
    made = ComputeTarget.attach(workspace, "node1", config)
    assert type(made) is RemoteCompute
    assert RemoteCompute.attach(workspace, "node1", config) == made
    assert RemoteCompute.attach(workspace, "node1", attach_configuration=config) == made
    assert fake.secrets["node1"] == {"private_key": KEY, "passphrase": "pp"}
    assert fake.computes["node1"]["config"] == {
        "address": "node1.lab",
        "port": 2222,
        "username": "me",
        "jump": "gate.lab",
    }
    made.delete()  # what Azure ML's first pages do with either kind of machine
    assert made.provisioning_state == "Deleting"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Please provide subscription_id, resource_group, vm_name or provide resource_id"),
        ({"resource_id": "/subscriptions/x/vm"}, "is a machine in Azure"),
        ({"address": "a", "ssh_port": 0}, "ssh_port is 0"),
        ({"address": "a", "ssh_port": "ssh"}, "ssh_port is 'ssh'"),
        ({"address": "a", "private_key_file": "no-such"}, "no-such cannot be read: no such file"),
        ({"address": "a", "private_key_file": "k.pub"}, "k.pub is no private key"),
    ],
)
def test_what_cannot_be_attached(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "k.pub").write_text("ssh-ed25519 AAAA me@here\n")
    with pytest.raises(ComputeTargetException, match=sentence):
        RemoteCompute.attach_configuration(username="me", **options)


def test_a_machine_is_made(workspace: Workspace, fake: FakeServer) -> None:
    config = DsvmCompute.provisioning_configuration(vm_size="Standard_D2_v2")
    made = DsvmCompute.create(workspace, name="mydsvm", provisioning_configuration=config)
    assert type(made) is DsvmCompute
    made.wait_for_completion(show_output=True)
    sent = fake.computes["mydsvm"]["config"]
    assert (sent["min_nodes"], sent["max_nodes"], sent["vm_size"]) == (1, 1, "Standard_D2_v2")
    assert type(DsvmCompute(workspace=workspace, name="mydsvm")) is DsvmCompute
    fake.computes["mydsvm"]["status"]["errors"] = ["no host is free"]
    set_nodes(fake.computes["mydsvm"], unusable=1)
    with pytest.raises(ComputeTargetException, match="reported from DSVM:\nno host is free"):
        made.wait_for_completion()


def test_clusters_of_azure_cannot_be_attached(workspace: Workspace) -> None:
    with pytest.raises(ComputeTargetException, match="is a cluster in Azure"):
        BatchAiCompute.attach(workspace=workspace, name="x", resource_id="/subscriptions/...")


def test_a_run_goes_to_a_target(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    made = cluster(workspace)
    config = ScriptRunConfig(tmp_path, "train.py", compute_target=made)
    assert config.to_spec()["target"] == "cpu-cluster"
    run_config = RunConfiguration()
    run_config.target = made
    assert ScriptRunConfig(tmp_path, "train.py", run_config=run_config).to_spec()["target"] == (
        "cpu-cluster"
    )
