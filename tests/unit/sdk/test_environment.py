from __future__ import annotations

import json
import os
import stat
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from wherry import (
    CondaDependencies,
    ContainerRegistry,
    DockerBuildContext,
    DockerConfiguration,
    Environment,
    RunConfigurationException,
    UserErrorException,
    load_environment,
)
from wherry.sdk.environment import from_spec
from wherry.sdk.environment_spec import fill, kept, specification
from wherry.sdk.script_run_config import _environment

MINE = "mine-1.0-py3-none-any.whl"


def test_the_seeds_system_managed_environment() -> None:
    environment = Environment()
    environment.python.user_managed_dependencies = False
    environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=["scikit-learn"]
    )
    found = specification(environment)["python"]
    assert found["user_managed"] is False
    assert "scikit-learn" in found["conda"]["dependencies"]


def test_the_seeds_container() -> None:
    environment = Environment()
    environment.docker.enabled = True
    environment.docker.base_image = "python:3.11-slim"
    environment.python.user_managed_dependencies = False
    environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=["scikit-learn"]
    )
    found = specification(environment)
    assert found["docker"]["image"] == "python:3.11-slim"
    assert found["docker"]["shm_size"] == "2g"
    assert not found["python"]["user_managed"]


def test_packages_make_it_system_managed_unless_it_says_otherwise() -> None:
    environment = Environment("mine")
    seen = [environment.python.user_managed_dependencies]
    environment.python.conda_dependencies.add_conda_package("numpy")
    seen.append(environment.python.user_managed_dependencies)
    environment.python.user_managed_dependencies = True
    assert [*seen, environment.python.user_managed_dependencies] == [True, False, True]
    looked_at = Environment("other")
    assert looked_at.python.conda_dependencies.conda_packages
    assert looked_at.python.user_managed_dependencies


def test_what_is_no_conda_dependencies_is_refused() -> None:
    with pytest.raises(TypeError, match="must be CondaDependencies, not list"):
        Environment().python.conda_dependencies = ["numpy"]


def test_a_run_carries_the_specification() -> None:
    environment = Environment("mine")
    environment.version = "3"
    environment.environment_variables = {"A": 1}
    environment.python.conda_dependencies.add_pip_package("pandas")
    body = _environment(environment, None, "local")
    assert (body["name"], body["version"], body["python"]) == ("mine", "3", {})
    assert body["environment_variables"] == {"A": "1"}
    assert "variables" not in body["specification"]
    again = from_spec({**body, "interpreter_path": ""})
    assert specification(again)["python"] == body["specification"]["python"]
    assert again.version == "3"


def test_a_run_may_bring_its_own_container_settings() -> None:
    environment = Environment("mine")
    environment.docker.base_image = "python:3.11-slim"
    environment.docker.enabled = False
    container = DockerConfiguration(True, arguments=["--init"], shm_size="4g")
    docker = _environment(environment, container, "local")["specification"]["docker"]
    assert docker["arguments"] == ["--init"]
    assert docker["shm_size"] == "4g"
    assert "specification" not in _environment(environment, None, "local")


def test_from_a_conda_file(tmp_path: Path) -> None:
    path = tmp_path / "conda.yml"
    path.write_text("name: a\ndependencies:\n- numpy\n")
    environment = Environment.from_conda_specification("mine", path)
    python = specification(environment)["python"]
    assert python["conda"] == {"name": "a", "dependencies": ["numpy"]}
    assert (python["file"], python["lines"]) == (str(path), {"numpy": 3})


def test_from_pip_requirements(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("tqdm\n")
    path = tmp_path / "requirements.txt"
    path.write_text(
        "# what it needs\n--extra-index-url https://x\n\npandas>=2  # frames\n"
        "a==1 \\\n  --hash=sha256:00\n-r more.txt\n"
    )
    environment = Environment.from_pip_requirements("mine", path, pip_version="24.0")
    python = specification(environment)["python"]
    (section,) = [each for each in python["conda"]["dependencies"] if isinstance(each, dict)]
    assert section["pip"] == [
        "--extra-index-url https://x",
        "pandas>=2",
        "a==1 --hash=sha256:00",
        "tqdm",
    ]
    assert "pip=24.0" in python["conda"]["dependencies"]
    assert python["lines"]["pandas>=2"] == 4
    assert python["lines"]["a==1 --hash=sha256:00"] == 5
    assert python["lines"]["tqdm"] == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pandas\nnumpy=1.0\n", "requirements.txt, line 2: 'numpy=1.0' is no pip"),
        ("-c pins.txt\n", "line 1: '-c pins.txt' names constraints"),
        ("-r none.txt\n", "there is no file .*none.txt"),
        ("-r requirements.txt\n", "line 1: .*requirements.txt takes itself in"),
    ],
)
def test_bad_requirements(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    with pytest.raises(UserErrorException, match=said):
        Environment.from_pip_requirements("mine", path)


def test_from_an_image(tmp_path: Path) -> None:
    registry = ContainerRegistry()
    registry.address, registry.username, registry.password = "r.io", "me", "secret"
    environment = Environment.from_docker_image("mine", "r.io/a:1", registry)
    found = specification(environment)
    assert found["python"] == {"user_managed": True, "interpreter": "python"}
    assert found["docker"]["registry"] == {
        "address": "r.io",
        "username": "me",
        "password": "secret",
    }
    assert "secret" not in repr(environment)
    (tmp_path / "r.txt").write_text("pandas\n")
    environment = Environment.from_docker_image("mine", "a", pip_requirements=tmp_path / "r.txt")
    assert not specification(environment)["python"]["user_managed"]
    with pytest.raises(UserErrorException, match="both a conda file and pip requirements"):
        Environment.from_docker_image("mine", "a", None, "a.yml", "r.txt")


def test_from_a_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.11\n")
    by_path = Environment.from_dockerfile("mine", tmp_path / "Dockerfile")
    by_text = Environment.from_dockerfile("mine", "FROM python:3.11\n")
    assert specification(by_path)["docker"] == specification(by_text)["docker"]
    with pytest.raises(UserErrorException, match=r"there is no file .*none"):
        Environment.from_dockerfile("mine", str(tmp_path / "none"))


def test_from_a_build_context(tmp_path: Path) -> None:
    context = DockerBuildContext.from_local_directory(tmp_path)
    environment = Environment.from_docker_build_context("mine", context)
    with pytest.raises(UserErrorException, match="has no 'Dockerfile'"):
        specification(environment)
    (tmp_path / "Dockerfile").write_text("FROM python:3.11\n")
    spec = kept(specification(environment), lambda path: f"snapshot of {path}")
    assert spec["docker"]["context"] == f"snapshot of {tmp_path}"
    assert spec["docker"]["dockerfile"] == "FROM python:3.11\n"
    context.location = str(tmp_path / "none")
    with pytest.raises(UserErrorException, match=r"no folder .*none' to build"):
        specification(environment)


def test_a_dockerfile_lies_in_its_build_context(tmp_path: Path) -> None:
    folder = tmp_path / "docker"
    folder.mkdir()
    (tmp_path / "other").write_text("FROM a\n")
    (folder / "link").symlink_to(tmp_path / "other")
    (folder / "real").write_text("FROM b\n")
    (folder / "inner").symlink_to("real")
    for path in ("../other", str(tmp_path / "other"), "link"):
        context = DockerBuildContext(str(folder), path)
        with pytest.raises(UserErrorException, match="outside of the build context"):
            specification(Environment.from_docker_build_context("mine", context))
    inner = DockerBuildContext(str(folder), "inner")
    found = specification(Environment.from_docker_build_context("mine", inner))
    assert found["docker"]["dockerfile"] == "FROM b\n"


def test_a_build_context_may_be_a_folders_name(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.11\n")
    for folder in (tmp_path, str(tmp_path), DockerBuildContext.from_local_directory(tmp_path)):
        found = specification(Environment.from_docker_build_context("mine", folder))
        assert found["docker"]["context"] == f"folder:{tmp_path}"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Environment.from_docker_image("a", ""), "'' is no image"),
        (lambda: Environment.from_docker_image("a", None), "None is no image"),  # type: ignore[arg-type]
        (lambda: Environment.from_dockerfile("a", None), "None is no Dockerfile"),
        (lambda: Environment.from_docker_build_context("a", 3), "3 is no folder to build"),  # type: ignore[arg-type]
        (lambda: Environment.add_private_pip_wheel(None, "a.whl"), "'a.whl' is not the name of a"),  # type: ignore[arg-type]
        (lambda: Environment.add_private_pip_wheel(None, MINE), "cannot be read: No such file"),  # type: ignore[arg-type]
        (lambda: Environment.add_private_pip_wheel(None, 3), "3 is no path of a wheel"),  # type: ignore[arg-type]
        (lambda: Environment.from_lock("a", {}), "what was given is no lock"),
        (lambda: Environment.from_lock("a", None), "what was given is no lock"),  # type: ignore[arg-type]
        (lambda: Environment.get(None, None), "None is not a valid environment name"),  # type: ignore[arg-type]
    ],
)
def test_sources_that_are_none(make: Any, said: str) -> None:
    with pytest.raises(UserErrorException, match=said):
        make()


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x05\x06" + bytes(18)])
def test_files_that_only_look_like_a_wheel(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MINE).write_bytes(content)
    with pytest.raises(UserErrorException, match=r"mine-1\.0.* is not a wheel: it is no zip"):
        Environment.add_private_pip_wheel(None, tmp_path / MINE)  # type: ignore[arg-type]
    folder = tmp_path / "folder" / MINE
    folder.mkdir(parents=True)
    pipe = tmp_path / "pipe" / MINE
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for each in (folder, pipe):
        with pytest.raises(UserErrorException, match=f"{MINE}' is not a file"):
            Environment.add_private_pip_wheel(None, str(each))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: setattr(e, "environment_variables", ["A=1"]), r"variables is \['A=1'\]"),
        (lambda e: setattr(e.python, "strict", "no"), "python.strict is 'no'"),
        (lambda e: setattr(e.python, "as_of", "2020-13-01"), "python.as_of is '2020-13-01', not a"),
        (lambda e: setattr(e.python, "resolver", "conda"), "python.resolver is 'conda'"),
        (lambda e: setattr(e.docker, "shm_size", "lots"), "docker.shm_size is 'lots', not"),
    ],
)
def test_settings_that_cannot_be(change: Any, said: str) -> None:
    environment = whole()
    change(environment)
    with pytest.raises(UserErrorException, match=f"environment 'mine': {said}"):
        specification(environment)


def test_it_is_shown_as_azure_ml_shows_it() -> None:
    environment = whole()
    environment.docker.base_image_registry.password = "geheim"
    shown = json.loads(repr(environment))
    assert (shown["name"], shown["python"]["userManagedDependencies"]) == ("mine", False)
    assert "numpy=1.26" in shown["python"]["condaDependencies"]["dependencies"]
    assert shown["docker"]["baseImageRegistry"]["password"] == "***"
    assert str(environment) == "Environment(Name: mine,\nVersion: None)"
    assert environment.docker.base_image_registry.password == "geheim"


def test_from_conda_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserErrorException, match=r"conda, .* is not on this machine"):
        Environment.from_existing_conda_environment("mine", "base")


def test_from_conda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "conda"
    program.write_text(
        '#!/bin/sh\n[ "$4" = mine ] || { echo "no such environment" >&2; exit 1; }\n'
        'printf "name: mine\\ndependencies:\\n- numpy=1.26\\nprefix: /x\\n"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = Environment.from_existing_conda_environment("copy", "mine")
    assert specification(found)["python"]["conda"]["dependencies"] == ["numpy=1.26"]
    with pytest.raises(UserErrorException, match=r"cannot export .*: no such environment"):
        Environment.from_existing_conda_environment("copy", "other")


LOCK = {"format": 1, "platform": "p", "python": "3.11", "conda": [], "pypi": [], "pylock": ""}


def test_from_a_lock(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text(json.dumps(LOCK))
    environment = Environment.from_lock("mine", tmp_path / "lock.json")
    assert specification(environment)["python"] == {
        "user_managed": False,
        "lock": LOCK,
    }
    assert specification(Environment.from_lock("mine", LOCK)) == specification(environment)
    for text in ("nonsense", "[]", "{}"):
        (tmp_path / "lock.json").write_text(text)
        with pytest.raises(UserErrorException, match=r"lock.json is no lock"):
            Environment.from_lock("mine", tmp_path / "lock.json")


def whole() -> Environment:
    environment = Environment("mine")
    environment.python.conda_dependencies.add_conda_package("numpy=1.26")
    environment.python.as_of = "2024-01-31"
    environment.python.strict = True
    environment.docker.base_image = "python:3.11-slim"
    environment.docker.arguments = ["--init"]
    environment.docker.base_image_registry.address = "r.io"
    environment.spark.packages = [{"group": "g", "artifact": "a", "version": "1"}]
    environment.environment_variables = {"A": "1"}
    environment.inferencing_stack_version = "latest"
    return environment


def test_a_specification_comes_back() -> None:
    spec = specification(whole())
    other = Environment("mine")
    fill(other, spec)
    assert specification(other) == spec


def test_a_clone_is_not_registered() -> None:
    environment = whole()
    environment.version = "3"
    other = environment.clone("other")
    assert (other.name, other.version) == ("other", None)
    assert specification(other) == specification(environment)


def test_a_folder_in_azure_mls_layout(tmp_path: Path) -> None:
    environment = whole()
    environment.save_to_directory(tmp_path / "env")
    fields = json.loads((tmp_path / "env" / "azureml_environment.json").read_text())
    assert fields["python"]["userManagedDependencies"] is False
    assert fields["docker"]["baseImage"] == "python:3.11-slim"
    assert fields["environmentVariables"] == {"A": "1"}
    other = Environment.load_from_directory(tmp_path / "env")
    found, expected = specification(other), specification(environment)
    found["python"].pop("lines")
    assert found["python"].pop("file").endswith("conda_dependencies.yml")
    assert found == expected
    with pytest.raises(UserErrorException, match="holds an environment already"):
        environment.save_to_directory(tmp_path / "env")
    environment.save_to_directory(tmp_path / "env", overwrite=True)


def test_dates_and_paths_go_into_the_folder(tmp_path: Path) -> None:
    environment = Environment("mine")
    environment.python.conda_dependencies.add_pip_package("six")
    environment.python.as_of = date(2020, 5, 1)  # type: ignore[assignment]
    environment.python.interpreter_path = tmp_path / "python"  # type: ignore[assignment]
    environment.save_to_directory(tmp_path)
    assert Environment.load_from_directory(tmp_path).python.as_of == "2020-05-01"
    environment.r = object()
    with pytest.raises(UserErrorException, match="cannot be written to a file"):
        environment.save_to_directory(tmp_path, overwrite=True)
    assert Environment.load_from_directory(tmp_path).name == "mine", "nothing was changed"


def test_a_folder_that_azure_ml_wrote(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "name": "old",
        "version": "4",
        "environmentVariables": {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"},
        "python": {
            "userManagedDependencies": False,
            "interpreterPath": "python",
            "condaDependenciesFile": None,
            "baseCondaEnvironment": None,
            "condaDependencies": {"name": "x", "dependencies": ["numpy"]},
        },
        "docker": {
            "enabled": False,
            "baseImage": "mcr.microsoft.com/azureml/base",
            "shmSize": None,
            "platform": {"os": "Linux", "architecture": "amd64"},
        },
        "spark": {"repositories": [], "packages": [], "precachePackages": True},
        "databricks": {"mavenLibraries": []},
        "r": None,
        "inferencingStackVersion": None,
    }
    (tmp_path / "azureml_environment.json").write_text(json.dumps(fields))
    found = Environment.load_from_directory(tmp_path)
    assert (found.name, found.version) == ("old", "4")
    spec = specification(found)
    assert spec["python"]["conda"]["dependencies"] == ["numpy"]
    assert "docker" not in spec
    assert spec["variables"] == {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}


@pytest.mark.parametrize(
    ("text", "said"), [(None, "holds no environment"), ("{", "not JSON"), ("[]", "describes no")]
)
def test_a_folder_that_holds_none(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "azureml_environment.json").write_text(text)
    with pytest.raises(UserErrorException, match=said):
        Environment.load_from_directory(tmp_path)


def test_a_conda_environment_of_one_machine_is_refused() -> None:
    environment = Environment("mine")
    environment.python.base_conda_environment = "base"
    with pytest.raises(RunConfigurationException, match="which only one machine has"):
        specification(environment)


V2 = """\
$schema: https://azuremlschemas.azureedge.net/latest/environment.schema.json
name: train
version: 3
image: python:3.11-slim
description: for training
tags: {a: 1}
conda_file:
  channels: [conda-forge]
  dependencies:
    - numpy
    - pip:
        - pandas>=2
"""


def test_a_file_of_azure_mls_v2(tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(V2)
    found = load_environment(path)
    assert (found.name, found.version, found.description) == ("train", "3", "for training")
    assert found.tags == {"a": "1"}
    spec = specification(found)
    assert spec["docker"]["image"] == "python:3.11-slim"
    assert spec["python"]["lines"] == {"numpy": 10, "pandas>=2": 12}
    assert spec["python"]["file"] == str(path)


def test_paths_in_it_are_counted_from_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conda.yml").write_text("dependencies: [numpy]\n")
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "mine.dockerfile").write_text("FROM x\n")
    (tmp_path / "a.yml").write_text("name: a\nconda_file: conda.yml\nas_of: 2020-05-01\n")
    (tmp_path / "b.yml").write_text(
        "name: b\nbuild: {path: docker, dockerfile_path: mine.dockerfile}\n"
    )
    monkeypatch.chdir("/")
    python = specification(load_environment(tmp_path / "a.yml"))["python"]
    assert python["as_of"] == "2020-05-01"
    assert python["conda"]["dependencies"] == ["numpy"]
    docker = specification(load_environment(tmp_path / "b.yml"))["docker"]
    assert docker["dockerfile"] == "FROM x\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "does not describe an environment"),
        ("nam: x\n", "a field 'nam', .*did you mean 'name'"),
        ("name: 3\n", "name is 3, not text"),
        ("image: a\nbuild: {path: b}\n", "both an image and a build"),
        ("build: {}\nimage: 3\n", "image is 3, not text"),
        ("build: {dockerfile_path: a}\n", "build names no folder"),
        ("build: x\n", "build is 'x' and has no fields"),
        ("conda_file: 3\n", "conda_file is 3"),
        ("python: {interpreter: /x}\n", "python has a field 'interpreter', .*'interpreter_path'"),
        ("python: {interpreter_path: 3}\n", "interpreter_path is 3, not text"),
        ("build: {path: a, dockerfile: b}\n", "build has a field 'dockerfile', .*_path'"),
        ("conda_file: none.yml\n", "there is no file .*none.yml"),
        ("os_type: windows\n", "os_type is 'windows'"),
        ("conda_file:\n  dependencies:\n  - pip:\n    - a=1\n", "yml, line 4: 'a=1' is no pip"),
    ],
)
def test_files_of_v2_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "e.yml").write_text(text)
    with pytest.raises(UserErrorException, match=said):
        specification(load_environment(tmp_path / "e.yml"))


def test_an_image_or_a_build_is_enough(tmp_path: Path) -> None:
    (tmp_path / "e.yml").write_text("name: a\nimage: x\n")
    found: dict[str, Any] = specification(load_environment(tmp_path / "e.yml"))
    assert found["python"]["user_managed"]
