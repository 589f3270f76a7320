"""Run configurations as Azure ML's files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from wherry import (
    CondaDependencies,
    DataReferenceConfiguration,
    DockerBuildContext,
    DockerConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
    UserErrorException,
)
from wherry.sdk.environment_spec import specification

OLD = """\
script: train.py
arguments: [--alpha, 0.1]
target: myhdi
framework: Python
communicator: None
autoPrepareEnvironment: true
maxRunDurationSeconds:
nodeCount: 1
environment:
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    userManagedDependencies: false
    interpreterPath: python
    condaDependenciesFile: aml_config/conda_dependencies.yml
  docker:
    enabled: false
    baseImage: mcr.microsoft.com/azureml/base:0.2.4
    arguments: []
history: {outputCollection: true}
mpi: {processCountPerNode: 4}
"""


def a_configuration() -> RunConfiguration:
    config = RunConfiguration(script="train.py", arguments=["--a", "1"])
    config.target = "cpu-cluster"
    config.max_run_duration_seconds = 60
    config.environment_variables = {"B": "2"}
    config.environment.name = "mine"
    config.environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=["scikit-learn"]
    )
    config.docker = DockerConfiguration(shm_size="4g")
    return config


def test_it_comes_back(tmp_path: Path) -> None:
    config = a_configuration()
    config.save(tmp_path, "mine")
    fields = yaml.safe_load((tmp_path / ".azureml" / "mine").read_text())
    assert list(fields)[:9] == [
        "script",
        "arguments",
        "target",
        "framework",
        "communicator",
        "maxRunDurationSeconds",
        "nodeCount",
        "priority",
        "environment",
    ]
    assert fields["environment"]["python"] == {
        "userManagedDependencies": False,
        "interpreterPath": "python",
        "condaDependenciesFile": ".azureml/conda_dependencies.yml",
        "baseCondaEnvironment": None,
    }
    assert "null" not in (tmp_path / ".azureml" / "mine").read_text()
    found = RunConfiguration.load(tmp_path, "mine")
    assert (found.script, found.arguments, found.target) == (
        "train.py",
        ["--a", "1"],
        "cpu-cluster",
    )
    assert found.max_run_duration_seconds == 60
    assert found.environment_variables == {"B": "2"}
    assert found.docker is not None
    assert found.docker.shm_size == "4g"
    assert found.environment.python.conda_dependencies == (
        config.environment.python.conda_dependencies
    )


def test_its_environment_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    config = a_configuration()
    config.save(tmp_path, "mine", separate_environment_yaml=True)
    fields = yaml.safe_load((tmp_path / ".azureml" / "mine").read_text())
    assert fields["environment"] == ".azureml/environment.yml"
    found = RunConfiguration.load(tmp_path, "mine")
    assert found.environment.name == "mine"


def test_a_file_by_its_path(tmp_path: Path) -> None:
    config = RunConfiguration()
    config.environment.python.interpreter_path = "/opt/python"
    config.save(tmp_path / "local.runconfig")
    found = RunConfiguration.load(tmp_path / "local.runconfig")
    assert found.environment.python.interpreter_path == "/opt/python"
    assert found.environment.python.user_managed_dependencies


def test_without_a_name_it_is_called_after_its_target(tmp_path: Path) -> None:
    a_configuration().save(tmp_path)
    assert RunConfiguration.load(tmp_path, "cpu-cluster").script == "train.py"
    RunConfiguration.delete(tmp_path, "cpu-cluster")
    with pytest.raises(UserErrorException, match="Failed to load"):
        RunConfiguration.load(tmp_path, "cpu-cluster")


@pytest.mark.parametrize("spelling", ["new", "old"])
def test_a_file_of_azure_mls_first_versions(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "myhdi.runconfig").write_text(OLD)
    CondaDependencies.create(conda_packages=["numpy"]).save(
        tmp_path / "aml_config" / "conda_dependencies.yml"
    )
    if spelling == "old":
        project = SimpleNamespace(project_directory=str(tmp_path))
        found = RunConfiguration.load(project_object=project, run_config_name="myhdi")
    else:
        found = RunConfiguration.load(tmp_path, "myhdi")
    assert found.target == "myhdi"
    assert found.arguments == ["--alpha", 0.1]
    spec = specification(found.environment)
    assert "numpy" in spec["python"]["conda"]["dependencies"]
    assert "docker" not in spec
    found.save(tmp_path, "again")
    kept = yaml.safe_load((tmp_path / ".azureml" / "again").read_text())
    assert kept["mpi"] == {"processCountPerNode": 4, "nodeCount": 1}
    assert kept["autoPrepareEnvironment"] is True


# As Azure ML 1.61 writes a configuration that nobody has changed.
PLAIN = """\
script:
arguments: []
target: local
framework: Python
communicator: None
maxRunDurationSeconds:
nodeCount: 1
priority:
environment:
  name: mine
  version:
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    userManagedDependencies: true
    interpreterPath: python
    condaDependenciesFile:
    baseCondaEnvironment:
  docker:
    enabled: false
    baseImage: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04
    baseDockerfile:
    buildContext:
    sharedVolumes: true
    shmSize: 2g
    arguments: []
    baseImageRegistry:
      address:
      username:
      password:
      registryIdentity:
    platform:
      os: Linux
      architecture: amd64
  spark:
    repositories: []
    packages: []
    precachePackages: true
  databricks:
    mavenLibraries: []
    pypiLibraries: []
    rcranLibraries: []
    jarLibraries: []
    eggLibraries: []
  r:
  inferencingStackVersion:
  assetId:
history:
  outputCollection: true
  snapshotProject: true
  directoriesToWatch:
  - logs
spark:
  configuration:
    spark.app.name: Azure ML Experiment
    spark.yarn.maxAppAttempts: 1
docker:
  useDocker: false
  sharedVolumes: true
  arguments: []
  shmSize: 2g
hdi:
  yarnDeployMode: cluster
tensorflow:
  workerCount: 1
  parameterServerCount: 1
mpi:
  processCountPerNode: 1
  nodeCount: 1
pytorch:
  communicationBackend: nccl
  processCount:
  nodeCount: 1
paralleltask:
  maxRetriesPerWorker: 0
  workerCountPerNode: 1
  terminalExitCodes:
dataReferences: {}
data: {}
datacaches: []
outputData: {}
sourceDirectoryDataStore:
amlcompute:
  vmSize:
  vmPriority:
  retainCluster: false
  name:
  clusterMaxNodeCount:
kubernetescompute:
  instanceType:
credentialPassthrough: false
command: ''
environmentVariables: {}
applicationEndpoints: {}
"""


def test_a_file_of_azure_ml_is_written_back_letter_by_letter(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(PLAIN)
    RunConfiguration.load(tmp_path, "mine").save(tmp_path, "again")
    assert (tmp_path / ".azureml" / "again").read_text() == PLAIN


def test_sections_of_azure_mls_own_targets(tmp_path: Path) -> None:
    config = RunConfiguration()
    config.node_count = 2
    config.mpi.process_count_per_node = 4
    config.tensorflow = TensorflowConfiguration(worker_count=3)
    config.pytorch = PyTorchConfiguration(process_count=8, node_count=2)
    config.hdi.yarn_deploy_mode = "client"
    config.amlcompute.vm_size = "STANDARD_D2_V2"
    config.kubernetescompute.instance_type = "gpu"
    config.spark.configuration["spark.executor.cores"] = 2
    config.history.output_collection = False
    config.data_references["images"] = DataReferenceConfiguration("store", path_on_datastore="a/b")
    config.data = {"train": {"dataLocation": {"dataset": {"id": "1"}}}}
    config.container_instance.region = "eastus"
    config.services = {"ssh": {"type": "ssh"}}
    config.environment.databricks.pypi_libraries = [{"package": "numpy"}]
    config.save(tmp_path, "mine")
    fields = yaml.safe_load((tmp_path / ".azureml" / "mine").read_text())
    assert fields["mpi"] == {"processCountPerNode": 4, "nodeCount": 1}
    assert fields["dataReferences"]["images"]["pathOnDataStore"] == "a/b"
    assert fields["containerInstance"] == {"region": "eastus", "cpuCores": 1, "memoryGb": 4}
    assert fields["environment"]["databricks"]["pypiLibraries"] == [{"package": "numpy"}]
    assert "batchai" not in fields
    found = RunConfiguration.load(tmp_path, "mine")
    assert found.data_references["images"].data_store_name == "store"
    assert (found.mpi.process_count_per_node, found.node_count) == (4, 2)
    assert found.services == config.services
    found.save(tmp_path, "again")
    assert yaml.safe_load((tmp_path / ".azureml" / "again").read_text()) == fields


@pytest.mark.parametrize(
    ("section", "name", "meant"),
    [
        ("mpi", "process_count", "process_count_per_node"),
        ("amlcompute", "vmsize", "vm_size"),
        ("hdi", "yarn_mode", "yarn_deploy_mode"),
    ],
)
def test_a_misspelt_attribute_of_a_section_is_refused(section: str, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{meant}'"):
        setattr(getattr(RunConfiguration(), section), name, 1)


def test_fields_that_nobody_knows_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("target: a\nexposedPorts: [1]\nnodecount: 2\n")
    found = RunConfiguration.load(tmp_path, "mine")
    assert found.node_count == 1
    assert "has a field 'nodecount', which Wherry does not know; did you mean 'node_count'" in (
        capsys.readouterr().err
    )
    found.save(tmp_path, "again")
    kept = yaml.safe_load((tmp_path / ".azureml" / "again").read_text())
    assert (kept["exposedPorts"], kept["nodecount"]) == ([1], 2)


def test_a_build_context_comes_back(tmp_path: Path) -> None:
    config = RunConfiguration()
    config.environment.docker.build_context = DockerBuildContext("docker", "mine.dockerfile")
    config.save(tmp_path, "mine")
    context = RunConfiguration.load(tmp_path, "mine").environment.docker.build_context
    assert context is not None
    assert (context.location, context.dockerfile_path) == ("docker", "mine.dockerfile")


def test_python_spelling_is_understood(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("target: a\nenvironment_variables: {A: b}\nnode_count: 2\n")
    found = RunConfiguration.load(tmp_path, "mine")
    assert (found.environment_variables, found.node_count) == ({"A": "b"}, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "is no run configuration"),
        ("a: [\n", "line 2, cannot be read"),
        (OLD, "names the conda file 'aml_config/conda_dependencies.yml', which is not there"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine").write_text(text)
    with pytest.raises(UserErrorException, match=said):
        RunConfiguration.load(tmp_path, "mine")


def test_missing_places(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match=r"Failed to load RunConfiguration from path=\. "):
        RunConfiguration.load(path=".", name="nope")
    with pytest.raises(UserErrorException, match=r"no folder .*none"):
        RunConfiguration().save(tmp_path / "none", "mine")
