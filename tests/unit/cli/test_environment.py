from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.builds.index import metadata, wheel
from wherry.cli import candidates
from wherry.cli.session import Session
from wherry.control import environments
from wherry.control.plane import Plane
from wherry.sdk.client import Client
from wherry.sdk.run import Run

from .conftest import Wherry

FILE = """\
$schema: https://azuremlschemas.azureedge.net/latest/environment.schema.json
name: train
description: for training
conda_file:
  dependencies:
    - python=3.11
    - pip: [pandas>=2]
"""
LOCK = {"format": 1, "platform": "linux", "python": "3.11", "conda": [], "pylock": "", "pypi": [
    {"name": "six", "version": "1.17.0", "hashes": []}
]}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_from_a_file(wherry: Wherry, folder: Path, plane: Plane) -> None:
    (folder / "environment.yml").write_text(FILE)
    made = wherry("environment", "create", "-f", "environment.yml")
    assert (made.code, made.out) == (0, "")
    assert "environment train version 1 is registered" in made.err
    again = wherry("environment", "create", "-f", "environment.yml", "--query", "version", "-otsv")
    assert again.out == "1\n"
    changed = wherry("environment", "create", "-f", "environment.yml", "--set", "image=a:1")
    assert "version 2" in changed.err
    environments.label(plane, "w", "train", "stable", "1")
    shown = wherry("environment", "show", "train", "-l", "stable").out
    assert "labels       stable" in shown
    assert shown == wherry("environment", "show", "train", "-v", "1").out
    assert "description  for training" in shown
    assert "      - pandas>=2" in shown
    record = json.loads(wherry("environment", "show", "-n", "train", "-o", "json").out)
    assert record["specification"]["docker"]["image"] == "a:1"
    assert record["specification"]["python"]["lines"] == {"python=3.11": 6, "pandas>=2": 7}


def test_from_options(wherry: Wherry, folder: Path) -> None:
    (folder / "conda.yml").write_text("dependencies: [numpy]\n")
    (folder / "docker").mkdir()
    (folder / "docker" / "Dockerfile").write_text("FROM python:3.11-slim\n")
    create = ("environment", "create", "-n", "mine")
    assert wherry(*create, "-c", "conda.yml", "--tag", "a=b", "-v", "7").code == 0
    assert wherry(*create, "--image", "python:3.11", "--description", "D").code == 0
    assert wherry(*create, "--build-context", "docker").code == 0
    listed = json.loads(wherry("environment", "list", "-n", "mine", "-o", "json").out)
    assert [each["version"] for each in listed] == ["9", "8", "7"]
    assert listed[0]["specification"]["docker"]["dockerfile"] == "FROM python:3.11-slim\n"
    assert len(listed[0]["specification"]["docker"]["context"]) == 64
    assert listed[2]["tags"] == {"a": "b"}
    table = wherry("environment", "list", "-n", "mine", "-r", "2").out.splitlines()
    assert len(table) == 3
    assert table[1].split()[:3] == ["mine", "9", "container"]


def test_the_list_has_curated_ones(wherry: Wherry) -> None:
    listed = wherry("environment", "list", "--query", "[?curated].name", "-o", "json").out
    assert "Wherry-sklearn" in json.loads(listed)
    shown = wherry("environment", "show", "AzureML-Minimal")
    assert "AzureML-Minimal is Azure ML's; Wherry-minimal version 1" in shown.err
    assert shown.out.startswith("name         Wherry-minimal\n")


def test_a_password_is_not_shown(wherry: Wherry, plane: Plane, folder: Path) -> None:
    registry = {"address": "r.io", "password": "geheim"}
    spec = {"docker": {"enabled": True, "image": "r.io/a", "registry": registry}}
    body = {"name": "mine", "specification": spec}
    environments.register(plane, "w", body, "me")
    for command in (("show", "mine"), ("list", "-n", "mine"), ("list",)):
        assert "geheim" not in wherry("environment", *command, "-o", "json").out
        assert "geheim" not in wherry("environment", *command).out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "-n", "a"), 2, "the environment says nothing to be there"),
        (("create", "-i", "a"), 2, "the environment has no name"),
        (("create", "-n", "a b", "-i", "a"), 1, "'a b' is not a valid environment name"),
        (("create", "-n", "AzureML-x", "-i", "a"), 1, "kept for curated environments"),
        (("create", "-n", "a", "-i", "a", "-v", "latest"), 1, "'latest' is no version"),
        (("show",), 2, "no environment is named"),
        (("show", "a", "-n", "b"), 2, "both NAME and --name"),
        (("show", "a", "-v", "1", "-l", "latest"), 2, "both --version and --label"),
        (("show", "a", "-l", "stable"), 1, "workspace 'w' has no environment 'a'"),
        (("show", "Wherry-sklearn", "-l", "stable"), 1, "has no label 'stable'"),
        (("show", "Wherry-sklern"), 1, "did you mean 'Wherry-sklearn'"),
        (("list", "-n", "nosuch"), 1, "workspace 'w' has no environment 'nosuch'"),
    ],
)
def test_mistakes(wherry: Wherry, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = wherry("environment", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_a_mistake_in_the_file_names_its_line(wherry: Wherry, folder: Path) -> None:
    (folder / "environment.yml").write_text(FILE.replace("pandas>=2", "pandas=2"))
    result = wherry("environment", "create", "-f", "environment.yml")
    assert result.code == 1
    assert "environment.yml, line 7: 'pandas=2' is no pip requirement" in result.err
    assert "pandas==2" in result.err


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("azureml:nosuch:1", "workspace 'w' has no environment 'nosuch'"),
        ("azureml:nosuch@stable", "workspace 'w' has no environment 'nosuch'"),
        ("azureml:nosuch@", "names no environment"),
        ("{conda_file: none.yml}", "there is no file"),
        ("{conda_file: {dependencies: [{pip: [a=1]}]}}", "job.yml, line 2: 'a=1' is no pip"),
        ("3", "environment is 3"),
    ],
)
def test_environments_that_job_files_cannot_have(
    wherry: Wherry, folder: Path, environment: str, said: str
) -> None:
    (folder / "job.yml").write_text(f"command: python train.py\nenvironment: {environment}\n")
    result = wherry("job", "create", "-f", "job.yml")
    assert (result.code, result.out) == (1, "")
    assert said in result.err


@pytest.mark.parametrize(
    ("environment", "name", "said"),
    [
        ("azureml:Wherry-sklearn@latest", "Wherry-sklearn", ""),
        ("Wherry-sklearn:1", "Wherry-sklearn", ""),
        ("azureml:AzureML-Minimal:3", "Wherry-minimal", "AzureML-Minimal is Azure ML's"),
        (
            "azureml://registries/azureml/environments/sklearn-1.5/labels/latest",
            "Wherry-sklearn",
            "AzureML-sklearn-1.5 is Azure ML's",
        ),
        ("{name: mine, conda_file: {dependencies: [numpy]}}", "mine", ""),
    ],
)
def test_environments_of_job_files(
    wherry: Wherry, folder: Path, environment: str, name: str, said: str
) -> None:
    (folder / "job.yml").write_text(f"command: python train.py\nenvironment: {environment}\n")
    result = wherry("job", "create", "-f", "job.yml", "-o", "json")
    assert result.code == 0
    assert said in result.err
    spec = json.loads(result.out)["spec"]
    assert spec["environment"]["name"] == name
    assert spec["environment"]["specification"]["python"]["conda"]["dependencies"]
    assert spec["command"] == "python train.py"


@pytest.mark.parametrize(
    ("given", "name", "package"),
    [
        ("Wherry-sklearn", "Wherry-sklearn", "scikit-learn==1.5.2"),
        ("conda.yml", "mine", "numpy"),
        ("requirements.txt", "requirements", "pandas"),
        ("./environment.yml", "train", "pandas>=2"),
        ("lock.json", "lock", "six"),
    ],
)
def test_a_run_in_an_environment(
    wherry: Wherry, folder: Path, given: str, name: str, package: str
) -> None:
    (folder / "train.py").write_text("")
    (folder / "conda.yml").write_text("name: mine\ndependencies: [numpy]\n")
    (folder / "requirements.txt").write_text("pandas\n")
    (folder / "environment.yml").write_text(FILE)
    (folder / "lock.json").write_text(json.dumps(LOCK))
    result = wherry("run", "--detach", "--environment", given, "train.py", "-o", "json")
    assert result.code == 0, result.err
    record = json.loads(result.out)
    spec = record["spec"]
    assert spec["environment"]["name"] == name
    assert package in json.dumps(spec["environment"]["specification"])
    assert f"environment  {name}" in wherry("job", "show", record["id"]).out
    bare = wherry("run", "--detach", "--environment", given, "--command", "x", "-o", "json").out
    assert json.loads(bare)["spec"]["command"] == "x"


def test_a_build_that_is_no_longer_watched_goes_on(
    wherry: Wherry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    (folder / "requirements.txt").write_text("pandas\n")
    monkeypatch.setattr(Run, "stream_logs", interrupted)
    result = wherry("environment", "build", "requirements.txt")
    assert result.code == 130
    assert "goes on; only the watching has ended" in result.err
    assert "wherry logs -f --build prepare_image_" in result.err


def test_wheels(wherry: Wherry, folder: Path) -> None:
    name = "mine-1.0-py3-none-any.whl"
    (folder / name).write_bytes(wheel("mine", "1.0", "", metadata("mine", "1.0", ())))
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    address = f"wherry://wheels/{digest}/{name}"
    assert wherry("environment", "add-wheel", name)[:2] == (0, f"{address}\n")
    record = json.loads(wherry("environment", "add-wheel", name, "-o", "json").out)
    assert (record["address"], record["name"]) == (address, name)
    assert "missing" not in record
    (folder / "requirements.txt").write_text(f"{address}\n")
    (folder / name).write_bytes(wheel("mine", "1.0", "A = 1", metadata("mine", "1.0", ())))
    refused = wherry("environment", "add-wheel", name)
    assert refused.code == 1
    assert f"keeps a wheel {name} already, with another content" in refused.err
    assert wherry("environment", "add-wheel", name, "--exist-ok").code == 0
    listed = wherry("environment", "list-wheels")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", name, name]
    assert address in listed.out
    assert wherry("environment", "add-wheel", "none.whl").code == 2


def test_labels(wherry: Wherry, folder: Path, client: Client) -> None:
    for package in ("pandas", "numpy"):
        (folder / "conda.yml").write_text(f"dependencies: [{package}]\n")
        wherry("environment", "create", "-n", "train", "-c", "conda.yml")
    put = wherry("environment", "label", "train", "production", "tested", "-v", "1")
    assert (put.code, put.out) == (0, "")
    assert "environment train version 1 is production and tested" in put.err
    shown = wherry("environment", "show", "train", "-l", "production", "-o", "json")
    assert json.loads(shown.out)["labels"] == ["production", "tested"]
    found = candidates.find("labels", Session(client), "p", {"name": "train"})
    assert [(item.value, item.help) for item in found] == [("production", "version 1")]
    assert candidates.find("labels", Session(client), "", {}) == []
    moved = wherry("environment", "label", "train", "production")
    assert "environment train version 2 is production" in moved.err
    assert wherry("environment", "show", "train", "--query", "labels[0]", "-otsv").out == (
        "production\n"
    )
    gone = wherry("environment", "unlabel", "train", "production", "tested")
    assert (gone.code, gone.out) == (0, "")
    assert "no version of environment train is production or tested any more" in gone.err
    again = wherry("environment", "unlabel", "train", "production")
    assert again.code == 1
    assert "has no label 'production'" in again.err
    assert wherry("environment", "label", "train").code == 2
    assert "is no label" in wherry("environment", "label", "train", "a b").err
