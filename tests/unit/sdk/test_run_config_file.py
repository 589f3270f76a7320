"""Run configurations as Azure ML's files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from wherry import CondaDependencies, DockerConfiguration, RunConfiguration, UserErrorException
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
    assert kept["mpi"] == {"processCountPerNode": 4}


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
