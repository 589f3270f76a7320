"""Programs as Azure ML's own pages of 2018 to 2023 show them, for clusters and single machines."""

# ruff: noqa: PLW1508 - numbers beside texts, as those pages have them
from __future__ import annotations

import os
from pathlib import Path

import pytest

import wherry
from tests.homes import Home
from wherry import CondaDependencies, Experiment, RunConfiguration, ScriptRunConfig, Workspace
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


def batch_ai(ws: Workspace) -> BatchAiCompute:
    """As it is written: the cluster is looked for by its name, and made if there is none."""
    batchai_cluster_name = os.environ.get("BATCHAI_CLUSTER_NAME", ws.name + "gpu")
    cluster_min_nodes = os.environ.get("BATCHAI_CLUSTER_MIN_NODES", 1)
    cluster_max_nodes = os.environ.get("BATCHAI_CLUSTER_MAX_NODES", 3)
    vm_size = os.environ.get("BATCHAI_CLUSTER_SKU", "STANDARD_NC6")
    autoscale_enabled = os.environ.get("BATCHAI_CLUSTER_AUTOSCALE_ENABLED", True)

    if batchai_cluster_name in ws.compute_targets():
        compute_target = ws.compute_targets()[batchai_cluster_name]
        if compute_target and type(compute_target) is BatchAiCompute:
            print("found compute target. just use it. " + batchai_cluster_name)
    else:
        print("creating a new compute target...")
        provisioning_config = BatchAiCompute.provisioning_configuration(
            vm_size=vm_size,
            vm_priority="lowpriority",
            autoscale_enabled=autoscale_enabled,
            cluster_min_nodes=cluster_min_nodes,
            cluster_max_nodes=cluster_max_nodes,
        )
        compute_target = ComputeTarget.create(ws, batchai_cluster_name, provisioning_config)
        assert isinstance(compute_target, BatchAiCompute)
        compute_target.wait_for_completion(
            show_output=True, min_node_count=None, timeout_in_minutes=20
        )
        print(compute_target.status.serialize())
    assert isinstance(compute_target, BatchAiCompute)
    return compute_target


def test_batch_ai(home: Home, ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    created = batch_ai(ws)
    said = capsys.readouterr().out
    assert said.startswith("creating a new compute target...\nSucceeded\n")
    assert (
        "BatchAI wait for completion finished\n\n"
        "Minimum number of nodes requested have been provisioned\n{"
    ) in said
    told = created.status.serialize()
    assert told["currentNodeCount"] == 1
    assert told["scaleSettings"]["autoScale"]["maximumNodeCount"] == 3
    assert told["vmSize"] == "STANDARD_NC6"
    assert batch_ai(ws).name == "labgpu"
    assert capsys.readouterr().out == "found compute target. just use it. labgpu\n"
    assert trained(ws, home, "labgpu") == {"loss": 0.5}


def test_batch_ai_in_azure_cannot_be_attached(ws: Workspace) -> None:
    resource_id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/clusters/c"
    with pytest.raises(ComputeTargetException, match="a cluster in Azure, which cannot be reached"):
        BatchAiCompute.attach(workspace=ws, name="mine", resource_id=resource_id)
    assert list(ws.compute_targets()) == ["local"]


def made_machine(ws: Workspace, compute_target_name: str) -> ComputeTarget:
    try:
        dsvm_compute: ComputeTarget = DsvmCompute(workspace=ws, name=compute_target_name)
        print("found existing:", dsvm_compute.name)
    except ComputeTargetException:
        print("creating new.")
        dsvm_config = DsvmCompute.provisioning_configuration(vm_size="Standard_D2_v2")
        dsvm_compute = DsvmCompute.create(
            ws, name=compute_target_name, provisioning_configuration=dsvm_config
        )
        dsvm_compute.wait_for_completion(show_output=True)
    return dsvm_compute


def test_a_machine_that_is_made(
    home: Home, ws: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    compute_target_name = "mydsvm"
    made_machine(ws, compute_target_name)
    assert capsys.readouterr().out == (
        'creating new.\nSucceeded\nProvisioning operation finished, operation "Succeeded"\n'
    )
    dsvm_compute = made_machine(ws, compute_target_name)
    assert capsys.readouterr().out == "found existing: mydsvm\n"
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


def test_the_run_configuration_of_a_machine_with_docker(capsys: pytest.CaptureFixture[str]) -> None:
    run_config = RunConfiguration(framework="python")
    run_config.target = "mydsvm"
    run_config.environment.docker.enabled = True
    run_config.environment.docker.base_image = wherry.DEFAULT_CPU_IMAGE
    print("Base Docker image is:", run_config.environment.docker.base_image)
    run_config.environment.python.user_managed_dependencies = False
    run_config.prepare_environment = True
    run_config.environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=["scikit-learn"]
    )
    assert capsys.readouterr().out == f"Base Docker image is: {wherry.DEFAULT_CPU_IMAGE}\n"
    assert "scikit-learn" in run_config.environment.python.conda_dependencies.serialize_to_string()


def test_the_run_configuration_of_a_container_instance() -> None:
    run_config = RunConfiguration()
    run_config.target = "containerinstance"
    run_config.container_instance.region = "eastus"
    run_config.container_instance.cpu_cores = 1
    run_config.container_instance.memory_gb = 2
    run_config.environment.docker.enabled = True
    run_config.environment.docker.base_image = wherry.DEFAULT_CPU_IMAGE
    run_config.environment.python.user_managed_dependencies = False
    run_config.auto_prepare_environment = True
    assert run_config.container_instance.cpu_cores == 1


def test_a_job_file_of_the_second_version(home: Home, ws: Workspace, tmp_path: Path) -> None:
    from wherry.cli.app import run as command

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
    assert command(["compute", "create", "--file", str(tmp_path / "cluster.yml"), *here]) == 0
    assert command(["job", "create", "-f", str(tmp_path / "job.yml"), "--stream", *here]) == 0
    assert command(["compute", "delete", "-n", "cpu-cluster", "--yes", *here]) == 0


def test_the_example_of_one_script_on_several_targets(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from wherry.cli.app import run as command

    monkeypatch.chdir(EXAMPLE)
    here = ["-w", ws.name, "-q"]
    assert command(["run", "train.py", *here]) == 0
    assert command(["compute", "create", "-f", "cluster.yml", *here]) == 0
    assert command(["run", "--target", "cpu-cluster", "train.py", *here]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("y = ")
