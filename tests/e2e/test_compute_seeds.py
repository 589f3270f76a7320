"""Programs as Azure ML's own pages of 2018 to 2023 show them, for clusters and single machines."""

# ruff: noqa: PLW1508 - numbers beside texts, as those pages have them
from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.homes import Home
from wherry import Experiment, RunConfiguration, ScriptRunConfig, Workspace
from wherry.compute import (
    AmlCompute,
    BatchAiCompute,
    ComputeTarget,
    ComputeTargetException,
    DsvmCompute,
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "03_switch_target"


@pytest.fixture
def ws(home: Home, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("WHERRY_LOCAL_CPUS", "4")
    monkeypatch.setenv("WHERRY_LOCAL_MEMORY", "4GB")
    return Workspace.create("lab", exist_ok=True)


def trained(ws: Workspace, home: Home, target: object) -> dict[str, object]:
    """What a script logs that runs there."""
    home.script("from wherry import Run\nRun.get_context().log('loss', 0.5)\n")
    config = ScriptRunConfig(str(home.source), "train.py", compute_target=target)
    run = Experiment(ws, "seeds").submit(config)
    run.wait_for_completion(show_output=True)
    return run.get_metrics()


def test_a_managed_cluster(home: Home, ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    name = "cpu-cluster"
    for found in (False, True):
        try:
            cpu_cluster = ComputeTarget(workspace=ws, name=name)
            print("Found existing cluster, use it.")
        except ComputeTargetException:
            compute_config = AmlCompute.provisioning_configuration(
                vm_size="STANDARD_D2_V2",
                min_nodes=os.environ.get("MIN_NODES", "0"),
                max_nodes=4,
                idle_seconds_before_scaledown="300",
            )
            cpu_cluster = ComputeTarget.create(ws, name, compute_config)
        cpu_cluster.wait_for_completion(show_output=True)
        assert ("Found existing cluster" in capsys.readouterr().out) is found
    assert type(cpu_cluster) is AmlCompute
    assert cpu_cluster.get_status().serialize()["scaleSettings"]["maxNodeCount"] == 4
    assert cpu_cluster.get_status().current_node_count == 0
    assert trained(ws, home, cpu_cluster) == {"loss": 0.5}
    (node,) = cpu_cluster.list_nodes()
    assert node["nodeState"] == "idle"
    assert list(cpu_cluster.get_active_runs()) == []
    cpu_cluster.delete()
    cpu_cluster.wait_for_completion(show_output=True, is_delete_operation=True)
    assert list(ws.compute_targets) == ["local"]


def test_batch_ai(home: Home, ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    batchai_cluster_name = os.environ.get("BATCHAI_CLUSTER_NAME", ws.name + "gpu")
    cluster_min_nodes = os.environ.get("BATCHAI_CLUSTER_MIN_NODES", 1)
    cluster_max_nodes = os.environ.get("BATCHAI_CLUSTER_MAX_NODES", 3)
    vm_size = os.environ.get("BATCHAI_CLUSTER_SKU", "STANDARD_NC6")
    autoscale_enabled = os.environ.get("BATCHAI_CLUSTER_AUTOSCALE_ENABLED", True)
    assert batchai_cluster_name not in ws.compute_targets()
    provisioning_config = BatchAiCompute.provisioning_configuration(
        vm_size=vm_size,
        vm_priority="lowpriority",
        autoscale_enabled=autoscale_enabled,
        cluster_min_nodes=cluster_min_nodes,
        cluster_max_nodes=cluster_max_nodes,
    )
    created = ComputeTarget.create(ws, batchai_cluster_name, provisioning_config)
    assert isinstance(created, BatchAiCompute)
    created.wait_for_completion(show_output=True, min_node_count=None, timeout_in_minutes=20)
    said = capsys.readouterr().out
    assert said.endswith(
        "BatchAI wait for completion finished\n\n"
        "Minimum number of nodes requested have been provisioned\n"
    )
    compute_target = ws.compute_targets()[batchai_cluster_name]
    assert type(compute_target) is BatchAiCompute
    told = compute_target.status.serialize()
    assert told["currentNodeCount"] == 1
    assert told["scaleSettings"]["autoScale"]["maximumNodeCount"] == 3
    assert told["vmSize"] == "STANDARD_NC6"
    assert trained(ws, home, batchai_cluster_name) == {"loss": 0.5}


def test_a_machine_that_is_made(home: Home, ws: Workspace) -> None:
    compute_target_name = "mydsvm"
    try:
        dsvm_compute = DsvmCompute(workspace=ws, name=compute_target_name)
        raise AssertionError("there is none yet")
    except ComputeTargetException:
        dsvm_config = DsvmCompute.provisioning_configuration(vm_size="Standard_D2_v2")
        made = DsvmCompute.create(
            ws, name=compute_target_name, provisioning_configuration=dsvm_config
        )
        made.wait_for_completion(show_output=True)
    dsvm_compute = DsvmCompute(workspace=ws, name=compute_target_name)
    run_config = RunConfiguration(framework="python")
    run_config.target = compute_target_name
    run_config.prepare_environment = True
    home.script("print('on the machine')\n")
    src = ScriptRunConfig(
        source_directory=str(home.source), script="train.py", run_config=run_config
    )
    run = Experiment(ws, "seeds").submit(src)
    assert run.wait_for_completion(show_output=True)["status"] == "Completed"
    dsvm_compute.delete()
    dsvm_compute.wait_for_completion(is_delete_operation=True)


def test_a_job_file_of_the_second_version(home: Home, ws: Workspace, tmp_path: Path) -> None:
    from wherry.cli.app import run as wherry

    home.script("print('by the file')\n")
    (tmp_path / "cluster.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json\n"
        "name: cpu-cluster\ntype: amlcompute\nsize: STANDARD_DS3_v2\n"
        "min_instances: 0\nmax_instances: 2\nidle_time_before_scale_down: 120\n"
    )
    (tmp_path / "job.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
        "command: python train.py\ncode: source\ncompute: azureml:cpu-cluster\n"
        "resources: {instance_count: 1}\nqueue_settings: {priority: high}\n"
    )
    here = ["-w", ws.name, "-q"]
    assert wherry(["compute", "create", "--file", str(tmp_path / "cluster.yml"), *here]) == 0
    assert wherry(["job", "create", "-f", str(tmp_path / "job.yml"), "--stream", *here]) == 0
    assert wherry(["compute", "delete", "-n", "cpu-cluster", "--yes", *here]) == 0


def test_the_example_of_one_script_on_several_targets(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from wherry.cli.app import run as wherry

    monkeypatch.chdir(EXAMPLE)
    here = ["-w", ws.name, "-q"]
    assert wherry(["run", "train.py", *here]) == 0
    assert wherry(["compute", "create", "-f", "cluster.yml", *here]) == 0
    assert wherry(["run", "--target", "cpu-cluster", "train.py", *here]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("y = ")
