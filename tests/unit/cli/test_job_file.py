"""Job files: what they may say, and what is told of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wherry.cli.job_file import parse, read
from wherry.core.errors import UserErrorException

V2_EXAMPLE = """
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
command: >-
  python main.py --lr ${{inputs.learning_rate}} --fast ${{ inputs.fast }}
  $[[--extra ${{inputs.extra}}]]
code: src
inputs:
  learning_rate: 0.1
  fast: true
environment:
  python: {interpreter_path: /opt/torch/bin/python}
compute: azureml:local
display_name: lightgbm-iris
experiment_name: lightgbm-iris
description: Train it.
tags: {data: v2, final: false}
environment_variables: {OMP_NUM_THREADS: 4}
limits: {timeout: 3600}
resources: {instance_count: 1, cpu: 2, memory: 4GB}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    path = tmp_path / "job.yml"
    path.write_text(V2_EXAMPLE)
    return path


def job(tmp_path: Path, **fields: Any) -> Any:
    return parse({"command": "python train.py", **fields}, str(tmp_path), "job.yml")


def refusal(tmp_path: Path, **fields: Any) -> str:
    with pytest.raises(UserErrorException) as caught:
        job(tmp_path, **fields)
    return str(caught.value)


def test_a_command_job(file: Path) -> None:
    found = read(str(file), [])
    assert found.command == "python main.py --lr 0.1 --fast true"
    assert found.code == str(file.parent / "src")
    assert found.interpreter == "/opt/torch/bin/python"
    assert (found.target, found.experiment) == ("local", "lightgbm-iris")
    assert (found.display_name, found.description) == ("lightgbm-iris", "Train it.")
    assert found.tags == {"data": "v2", "final": "false"}
    assert found.variables == {"OMP_NUM_THREADS": "4"}
    assert found.timeout_s == 3600
    assert found.resources == {"cpu": 2, "memory": "4GB"}


def test_fields_can_be_set(file: Path) -> None:
    changes = ["inputs.learning_rate=0.5", "inputs.extra=a b", "limits.timeout=2h", "tags.new=1"]
    found = read(str(file), changes)
    assert found.command == "python main.py --lr 0.5 --fast true --extra a b"
    assert found.timeout_s == 7200
    assert found.tags["new"] == "1"


def test_the_least_that_is_needed(tmp_path: Path) -> None:
    found = job(tmp_path)
    assert (found.code, found.interpreter, found.target) == (None, None, "local")
    assert job(tmp_path, name="mine").display_name == "mine"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"compte": "x"}, "did you mean 'compute'"),
        ({"type": "sweep"}, "is a sweep job"),
        ({"services": {"a": {}}}, "cannot do 'services' yet"),
        ({"distribution": {"type": "horovod"}}, "distribution.type is 'horovod'"),
        ({"distribution": {"type": "mpi", "port": 1}}, "distribution has no field 'port'"),
        ({"queue_settings": {"priority": "hihg"}}, "did you mean 'high'?"),
        ({"queue_settings": {"job_tier": "spot"}}, "queue_settings has no field 'job_tier'"),
        ({"command": ""}, "has no command"),
        ({"command": "x ${{inputs.nope}}"}, "${{inputs.nope}}, which is not given"),
        ({"command": "x ${{outputs.o}}"}, "${{outputs.o}}, which is not given"),
        ({"inputs": {"data": {"type": "uri_file", "path": "x"}}}, "input 'data' is data"),
        ({"code": "missing"}, "there is no folder 'missing'"),
        ({"code": "git+https://example.org/x"}, "cannot fetch code"),
        ({"environment": 3}, "environment is 3"),
        ({"environment": {"imag": "x"}}, "a field 'imag'"),
        ({"environment": {"python": {"version": 3}}}, "no field 'version'"),
        ({"resources": {"instance_count": 0}}, "instance_count is 0, not a whole number from 1"),
        ({"resources": {"instance_count": "two"}}, "instance_count is 'two'"),
        ({"resources": {"shm_size": "2g"}}, "resources.shm_size"),
        ({"limits": {"timeout": "soon"}}, "limits.timeout is 'soon'"),
        ({"limits": {"trials": 3}}, "limits has no field 'trials'"),
        ({"tags": ["a"]}, "and has no fields"),
        ({"tags": {"a": [1]}}, "tags.a is"),
    ],
)
def test_what_cannot_be_carried_out_is_named(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    message = refusal(tmp_path, **fields)
    assert said in message
    assert "job.yml" in message


def test_nodes_and_what_they_do_together(tmp_path: Path) -> None:
    each = {"type": "pytorch", "process_count_per_instance": 4}
    found = job(tmp_path, compute="azureml:c", resources={"instance_count": 2}, distribution=each)
    assert (found.target, found.nodes, found.priority) == ("c", 2, None)
    assert (found.distribution.process_count, found.distribution.node_count) == (8, 2)
    found = job(tmp_path, distribution={"type": "mpi", "process_count_per_instance": 3})
    assert (found.distribution.process_count_per_node, found.distribution.node_count) == (3, 1)
    three = {"instance_count": 3}
    found = job(
        tmp_path,
        resources=three,
        distribution={"type": "tensorflow", "parameter_server_count": 1},
    )
    assert found.distribution.worker_count == 2
    for word, number in (("low", -1), ("High", 1), (7, 7), ("-3", -3)):
        assert job(tmp_path, queue_settings={"priority": word}).priority == number


def test_an_empty_field_that_is_not_supported_does_no_harm(tmp_path: Path) -> None:
    assert job(tmp_path, outputs={}).command


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("command: [a", "line 2, cannot be read"),
        ("command: a\ncommand: b", "line 2, cannot be read: 'command' stands there twice"),
        ("a: " + "[" * 100_000, "is nested too deeply"),
        ("just words", "does not describe a job"),
        ("", "does not describe a job"),
    ],
)
def test_a_file_that_is_no_job(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "job.yml"
    path.write_text(text + "\n")
    with pytest.raises(UserErrorException, match=said):
        read(str(path), [])


@pytest.mark.parametrize("change", ["x", "=1", "a..b=1", "command.x=1"])
def test_a_change_that_cannot_be_made(file: Path, change: str) -> None:
    with pytest.raises(UserErrorException, match="--set"):
        read(str(file), [change])


def test_an_interpreter_may_lie_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    for text in ("./venv", "venv"):
        assert job(tmp_path, environment={"python": text}).interpreter == str(tmp_path / "venv")
    assert job(tmp_path, environment={"python": ""}).interpreter is None
    assert job(tmp_path, environment={"python": "python3.9"}).interpreter == "python3.9"
