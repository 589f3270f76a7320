from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from wherry import (
    DockerConfiguration,
    Environment,
    Resources,
    RunConfiguration,
    RunConfigurationException,
    ScriptRunConfig,
    UserErrorException,
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").touch()
    (folder / "pkg" / "main.py").touch()
    return folder


def spec(source: Path, **options: Any) -> dict[str, Any]:
    options.setdefault("script", "train.py")
    return ScriptRunConfig(source, **options).to_spec()


def test_defaults(source: Path) -> None:
    assert spec(source) == {
        "target": "local",
        "script": "train.py",
        "arguments": [],
        "environment": {
            "name": "",
            "python": {"interpreter_path": sys.executable},
            "environment_variables": {},
        },
        "environment_variables": {},
        "resources": {"cpu": 1.0, "memory_bytes": 0, "gpu": 0},
    }


def test_another_machine_is_told_that_nobody_named_the_interpreter(source: Path) -> None:
    found = spec(source, compute_target="lab")["environment"]["python"]
    assert found == {"interpreter_path": sys.executable, "implied": True}
    environment = Environment()
    environment.python.interpreter_path = "python3.12"
    found = spec(source, compute_target="lab", environment=environment)["environment"]["python"]
    assert found == {"interpreter_path": "python3.12"}


def test_arguments_become_text(source: Path) -> None:
    found = spec(source, arguments=["--a", 1, 0.1, True, Path("data"), "x y"])
    assert found["arguments"] == ["--a", "1", "0.1", "True", "data", "x y"]
    assert spec(source, arguments="--a 'x y'")["arguments"] == ["--a", "x y"]


def test_none_among_the_arguments_is_refused(source: Path) -> None:
    with pytest.raises(UserErrorException, match=r"arguments\[1\] is None"):
        spec(source, arguments=["--data", None])


@pytest.mark.parametrize("script", ["pkg/main.py", "./pkg/main.py", "pkg/../pkg/main.py"])
def test_a_script_in_a_folder(source: Path, script: str) -> None:
    assert spec(source, script=script)["script"] == "pkg/main.py"
    assert spec(source, script=str(source / "pkg" / "main.py"))["script"] == "pkg/main.py"


def test_a_source_directory_behind_a_link(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)
    assert spec(tmp_path / "link")["script"] == "train.py"
    assert spec(tmp_path / "link", script=str(tmp_path / "link" / "train.py"))["script"] == (
        "train.py"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("none.py", "there is no script 'none.py'"),
        ("pkg", "script 'pkg' is a folder"),
        ("../other.py", "outside the source directory"),
        ("/etc/hostname", "outside the source directory"),
        (None, "there is nothing to run"),
    ],
)
def test_scripts_that_cannot_run(source: Path, script: Any, said: str) -> None:
    with pytest.raises((UserErrorException, RunConfigurationException), match=said):
        ScriptRunConfig(source, script).to_spec()


def test_a_missing_source_directory(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="does not exist"):
        ScriptRunConfig(tmp_path / "none", "train.py").to_spec()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserErrorException, match="is not a directory"):
        ScriptRunConfig(tmp_path / "file", "train.py").to_spec()


@pytest.mark.parametrize("path", ["~/bin/mine", "bin/mine", "./bin/mine", "mine"])
def test_an_interpreter_is_found_as_in_a_shell(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mine").write_text("")
    (tmp_path / "bin" / "mine").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    environment = Environment("mine")
    environment.python.interpreter_path = path
    found = spec(source, environment=environment)["environment"]["python"]["interpreter_path"]
    assert found == str(tmp_path / "bin" / "mine")


@pytest.mark.parametrize("path", ["~/none", "none", "/none/python", "a/none"])
def test_an_interpreter_that_is_not_here_is_left_to_the_target(source: Path, path: str) -> None:
    environment = Environment("theirs")
    environment.python.interpreter_path = path
    found = spec(source, environment=environment)["environment"]["python"]["interpreter_path"]
    assert found == path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (5, "must be a list, not int"),
        ({"--a": 1}, "must be a list, not dict"),
        ("--a 'b", "no closing quotation"),
        (["a\udcff"], r"arguments\[0\] is not text"),
    ],
)
def test_arguments_that_are_none(source: Path, arguments: Any, said: str) -> None:
    with pytest.raises(UserErrorException, match=said):
        spec(source, arguments=arguments)


@pytest.mark.parametrize("command", ["", "  ", [], ()])
def test_an_empty_command_is_none(source: Path, command: Any) -> None:
    assert spec(source, script="train.py", command=command)["script"] == "train.py"
    with pytest.raises(RunConfigurationException, match="nothing to run"):
        ScriptRunConfig(source, command=command).to_spec()


def test_a_command_takes_the_place_of_the_script(source: Path) -> None:
    text = ScriptRunConfig(source, command="python train.py && echo done").to_spec()
    assert text["command"] == "python train.py && echo done"
    assert "script" not in text
    words = ScriptRunConfig(source, command=["python", Path("train.py"), 3]).to_spec()
    assert words["command"] == ["python", "train.py", "3"]
    with pytest.raises(RunConfigurationException, match="both"):
        ScriptRunConfig(source, script="train.py", command="x").to_spec()


def test_targets_by_name_or_object(source: Path) -> None:
    class Target:
        name = "gpu-cluster"

    assert spec(source, compute_target=Target())["target"] == "gpu-cluster"
    assert spec(source, compute_target="mine")["target"] == "mine"


@pytest.mark.parametrize(
    "wanted",
    [Resources(2.0, 4_000_000_000, 1), {"cpu": 2, "memory": "4GB", "gpu": 1}],
)
def test_resources(source: Path, wanted: Any) -> None:
    expected = {"cpu": 2.0, "memory_bytes": 4_000_000_000, "gpu": 1}
    assert spec(source, resources=wanted)["resources"] == expected
    config = RunConfiguration()
    config.resources = wanted
    assert spec(source, run_config=config)["resources"] == expected


def test_bad_resources_are_refused(source: Path) -> None:
    with pytest.raises(UserErrorException, match="no field 'gpus'"):
        spec(source, resources={"gpus": 1})


def test_a_run_configuration_in_full(source: Path) -> None:
    config = RunConfiguration(script="pkg/main.py", arguments=["a"])
    config.target = "local"
    config.framework = "python"
    config.max_run_duration_seconds = 60
    config.environment_variables = {"A": 1}
    config.environment.python.user_managed_dependencies = True
    config.environment.python.interpreter_path = "/opt/bin/python"
    config.environment.environment_variables = {"B": "2"}
    config.history.output_collection = True
    found = ScriptRunConfig(source, run_config=config).to_spec()
    assert found["script"] == "pkg/main.py"
    assert found["arguments"] == ["a"]
    assert found["max_run_duration_s"] == 60
    assert found["environment_variables"] == {"A": "1"}
    assert found["environment"]["python"] == {"interpreter_path": "/opt/bin/python"}
    assert found["environment"]["environment_variables"] == {"B": "2"}


def test_later_changes_of_the_configuration_count(source: Path) -> None:
    config = RunConfiguration()
    run = ScriptRunConfig(source, "train.py", run_config=config)
    config.target = "later"
    assert run.to_spec()["target"] == "later"
    run.run_config.environment = Environment("mine")
    assert run.to_spec()["environment"]["name"] == "mine"


def test_one_configuration_serves_several_scripts(source: Path) -> None:
    config = RunConfiguration()
    first = ScriptRunConfig(source, "train.py", run_config=config, compute_target="one")
    second = ScriptRunConfig(source, "train.py", run_config=config)
    assert first.to_spec()["target"] == "one"
    assert second.to_spec()["target"] == "local"


@pytest.mark.parametrize(
    ("make", "name", "suggested"),
    [
        (RunConfiguration, "node_counts", "node_count"),
        (RunConfiguration, "enviroment", "environment"),
        (Environment, "enviroment_variables", "environment_variables"),
        (lambda: Environment().python, "interpreter", "interpreter_path"),
        (DockerConfiguration, "use_dokcer", "use_docker"),
    ],
)
def test_unknown_attributes_are_refused_with_a_suggestion(
    make: Any, name: str, suggested: str
) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{suggested}'"):
        setattr(make(), name, 1)


def test_a_name_is_no_environment(source: Path) -> None:
    with pytest.raises(UserErrorException, match="environment is 'Wherry-sklearn', not an Env"):
        ScriptRunConfig(source, "train.py", environment="Wherry-sklearn")  # type: ignore[arg-type]


def test_an_attribute_unlike_any_is_refused_without() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'xyz'$"):
        RunConfiguration().xyz = 1


def test_nodes_and_priority(source: Path) -> None:
    config = RunConfiguration()
    spec = ScriptRunConfig(source, "train.py", run_config=config).to_spec()
    assert not {"node_count", "priority"} & set(spec)
    config.node_count, config.priority = "2", 5  # type: ignore[assignment]
    spec = ScriptRunConfig(source, "train.py", run_config=config).to_spec()
    assert (spec["node_count"], spec["priority"]) == (2, 5)


def test_the_typo_of_the_old_documents_is_accepted() -> None:
    config = RunConfiguration()
    config.prepare_environment = True
    config.auto_prepare_environment = True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: setattr(c.run_config, "node_count", 0), "node_count is 0, not a whole number"),
        (lambda c: setattr(c.run_config, "node_count", "x"), "node_count is 'x'"),
        (lambda c: setattr(c.run_config, "priority", 1.5), "priority is 1.5"),
        (lambda c: setattr(c.run_config, "framework", "PySpark"), "framework 'PySpark'"),
        (lambda c: setattr(c.run_config, "communicator", "Pony"), "communicator 'Pony'"),
        (lambda c: setattr(c, "distributed_job_config", "mpi"), "distributed_job_config is 'mpi'"),
        (lambda c: setattr(c, "resume_from", object()), "resume_from"),
    ],
)
def test_what_cannot_be_done_yet_is_refused(source: Path, change: Any, said: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    change(config)
    with pytest.raises(RunConfigurationException, match=said):
        config.to_spec()


def test_a_run_may_ask_for_the_container_of_its_environment(source: Path) -> None:
    environment = Environment("mine")
    environment.docker.base_image = "ubuntu"
    environment.docker.enabled = False
    assert "specification" not in spec(source, environment=environment)["environment"]
    config = RunConfiguration()
    config.environment, config.docker = environment, DockerConfiguration(True)
    asked = spec(source, run_config=config)["environment"]["specification"]["docker"]
    assert (asked["enabled"], asked["image"]) == (True, "ubuntu")


@pytest.mark.parametrize("variables", [{"A": None}, ["A=1"]])
def test_bad_variables_are_refused(source: Path, variables: Any) -> None:
    config = RunConfiguration()
    config.environment_variables = variables
    with pytest.raises(UserErrorException, match="environment"):
        spec(source, run_config=config)


def test_a_clone_is_independent() -> None:
    first = Environment("a")
    second = first.clone("b")
    second.python.interpreter_path = "/x"
    assert (first.name, first.python.interpreter_path) == ("a", "python")
    assert "Name: b" in str(second)


def test_forms(source: Path) -> None:
    assert "train.py" in repr(ScriptRunConfig(source, "train.py"))
    assert "echo" in repr(ScriptRunConfig(source, command="echo"))
    assert "use_docker=False" in repr(DockerConfiguration())
    assert "local" in repr(RunConfiguration())


def test_a_container_instance_has_a_size_and_a_region(source: Path) -> None:
    config = RunConfiguration()
    config.target = "containerinstance"
    usual = spec(source, run_config=config)
    assert usual["resources"] == {"cpu": 1.0, "memory_bytes": 4 * 10**9, "gpu": 0}
    assert (usual["region"], usual["environment"]["python"]["implied"]) == ("", True)
    config.container_instance.region = "eastus"
    config.container_instance.cpu_cores = "0.5"
    config.container_instance.memory_gb = 2
    wanted = spec(source, run_config=config)
    assert wanted["resources"] == {"cpu": 0.5, "memory_bytes": 2 * 10**9, "gpu": 0}
    assert wanted["region"] == "eastus"
    other = spec(source, run_config=config, resources={"cpu": 2})
    assert other["resources"] == {"cpu": 2.0, "memory_bytes": 2 * 10**9, "gpu": 0}
    assert "region" not in spec(source, run_config=config, compute_target="local")


@pytest.mark.parametrize("value", [0, -1, "many", None, True])
def test_a_size_that_is_none_is_refused(source: Path, value: Any) -> None:
    config = RunConfiguration()
    config.target = "containerinstance"
    config.container_instance.memory_gb = value
    with pytest.raises(RunConfigurationException, match=r"container_instance\.memory_gb is"):
        spec(source, run_config=config)


def test_the_image_of_a_container_instance_need_not_be_enabled(source: Path) -> None:
    environment = Environment("e")
    environment.docker.base_image = "base:1"
    environment.docker.enabled = False
    asked = spec(source, environment=environment, compute_target="containerinstance")
    docker = asked["environment"]["specification"]["docker"]
    assert (docker["enabled"], docker["image"]) == (True, "base:1")
    here = spec(source, environment=environment)
    assert "specification" not in here["environment"]
