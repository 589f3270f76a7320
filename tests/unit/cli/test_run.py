"""``run`` and ``job create`` up to the point where something is executed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Wherry
from wherry.cli.progress import Progress, sending
from wherry.cli.session import Session
from wherry.sdk.client import Client


@pytest.fixture
def project(plane: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "churn project"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "data.csv").write_text("x" * 1000)
    monkeypatch.chdir(folder)
    return folder


def spec_of(wherry: Wherry, *arguments: str) -> dict[str, Any]:
    result = wherry(*arguments)
    assert result.code == 0, result.err
    return dict(json.loads(wherry("job", "show", result.out.strip(), "-o", "json").out))


def test_every_option_arrives(wherry: Wherry, project: Path) -> None:
    run = spec_of(
        wherry,
        "run",
        "--detach",
        "--name",
        "nick",
        "--tag",
        "a=b=c",
        "--tag",
        "d=",
        "--experiment",
        "e2",
        "--cpu",
        "0.5",
        "--memory",
        "2GB",
        "--timeout",
        "1h30m",
        "--env-var",
        "K=v w",
        "train.py",
        "--",
        "--lr",
        "0.1",
        "--",
        "-x",
    )
    spec = run["spec"]
    assert (run["display_name"], run["experiment"], run["target"]) == ("nick", "e2", "local")
    assert run["tags"] == {"a": "b=c", "d": ""}
    assert spec["resources"] == {"cpu": 0.5, "memory_bytes": 2_000_000_000, "gpu": 0}
    assert spec["max_run_duration_s"] == 5400
    assert spec["environment_variables"] == {"K": "v w"}
    assert spec["environment"]["interpreter_path"] == sys.executable
    assert (spec["script"], spec["arguments"]) == ("train.py", ["--lr", "0.1", "--", "-x"])


def test_a_variables_value_may_come_from_here(
    wherry: Wherry, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "geheim=1")
    run = spec_of(
        wherry, "run", "--env-var", "A=b", "--env-var", "PASSWORD", "train.py", "--detach"
    )
    assert run["spec"]["environment_variables"] == {"A": "b", "PASSWORD": "geheim=1"}


def test_options_may_follow_the_script(wherry: Wherry, project: Path) -> None:
    run = spec_of(wherry, "run", "train.py", "--detach", "--name", "nick", "data.csv")
    assert (run["display_name"], run["spec"]["arguments"]) == ("nick", ["data.csv"])
    assert run["experiment"] == "churn-project"


def test_a_command(wherry: Wherry, project: Path) -> None:
    run = spec_of(wherry, "run", "--detach", "--command", "echo 1 && echo 2")
    assert run["spec"]["command"].endswith("; echo 1 && echo 2")
    assert run["spec"]["script"] == ""


def test_detached_it_prints_the_id_or_the_record(wherry: Wherry, project: Path) -> None:
    plain = wherry("run", "--detach", "train.py")
    assert plain.err == f"wherry: run {plain.out.strip()} submitted to local\n"
    assert json.loads(wherry("run", "--detach", "train.py", "-o", "json").out)["status"] == "Queued"
    queried = wherry("run", "-q", "--detach", "train.py", "--query", "status")
    assert queried == (0, "Queued\n", "")


def test_a_dry_run_stores_nothing(wherry: Wherry, project: Path) -> None:
    shown = wherry("run", "--dry-run", "--tag", "a=b", "train.py", "--", "--lr", "a b").out
    assert "files        2 files, 1.0 kB\n" in shown
    assert f"    {sys.executable} train.py --lr 'a b'\n" in shown
    assert f"source       {project}\n" in shown
    assert "tags         a=b\n" in shown
    plan = json.loads(wherry("run", "--dry-run", "train.py", "-o", "json").out)
    assert plan["argv"] == [sys.executable, "train.py"]
    assert plan["files"] == {"count": 2, "size": 1009}
    assert wherry("ps", "-o", "json").out == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "there is nothing to run"),
        (["--command", "x", "train.py"], 2, "both a script ('train.py') and a --command"),
        (["train.py", "--lr", "1"], 2, "come after '--': wherry run train.py -- --lr 1"),
        (["--lr=1", "train.py"], 2, "wherry run --help lists its options"),
        (["--name", "a", "--image", "x", "train.py"], 2, "wherry run --help lists its options"),
        (["--detach", "train.py", "--lr=1"], 2, "wherry run --detach train.py -- --lr=1"),
        (["--targt", "x", "train.py"], 2, "did you mean '--target'"),
        (["--tag", "a", "train.py"], 2, "--tag 'a' has no '='"),
        (["--env-var", "NO_SUCH", "train.py"], 2, "there is no such variable here"),
        (["--env-var", "=x", "train.py"], 2, "--env-var '=x' has no name before the '='"),
        (["--timeout", "soon", "train.py"], 2, "'soon' is no length of time"),
        (["--cpu", "none", "train.py"], 2, "'none' is not a number above 0"),
        (["--gpu", "-1", "train.py"], 2, "'-1' is not a whole number"),
        (["--memory", "4Q", "train.py"], 2, "'4Q' is no size"),
        (["--target", "moon", "train.py"], 1, "there is no compute target 'moon'"),
        (["trian.py"], 1, "did you mean 'train.py'"),
        (["--experiment", "a/b", "train.py"], 1, "is not a valid experiment name"),
        (["--source", "nowhere", "train.py"], 2, "there is no folder 'nowhere' in "),
    ],
)
def test_what_cannot_be_run(
    wherry: Wherry, project: Path, arguments: list[str], code: int, said: str
) -> None:
    result = wherry("run", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert wherry("ps", "-o", "json").out == "[]\n"


def test_a_job_file(wherry: Wherry, project: Path) -> None:
    (project / "job.yml").write_text(
        "command: python train.py --lr ${{inputs.lr}}\n"
        "code: .\ninputs: {lr: 0.1}\nexperiment_name: filed\ntags: {a: 1}\n"
        f"environment: {{python: {sys.executable}}}\nproperties: {{p: q}}\n"
    )
    run = spec_of(wherry, "job", "create", "-f", "job.yml", "--set", "inputs.lr=0.5")
    assert (run["experiment"], run["tags"]) == ("filed", {"a": "1"})
    assert run["properties"]["p"] == "q"
    assert run["spec"]["command"].endswith("; python train.py --lr 0.5")
    plan = json.loads(wherry("job", "create", "-f", "job.yml", "--dry-run", "-o", "json").out)
    assert plan["files"]["count"] == 3
    refused = wherry("job", "create", "-f", "job.yml", "--set", "comand=x")
    assert (refused.code, "did you mean 'command'" in refused.err) == (1, True)


def test_a_job_without_code_runs_in_an_empty_folder(wherry: Wherry, project: Path) -> None:
    (project / "job.yml").write_text("command: echo 1\n")
    run = spec_of(wherry, "job", "create", "-f", "job.yml")
    listed = wherry("job", "download", run["id"], "--snapshot", "--list", "-o", "json").out
    assert (json.loads(listed), run["experiment"]) == ([], "churn-project")


class Watched(Progress):
    def __init__(self) -> None:
        super().__init__(Session(), "reading files")
        self.told: list[Any] = []

    def say(self, what: str) -> None:
        self.told.append(what)

    def step(self, done: int, total: int) -> None:
        self.told.append((done, total))


def test_sending_tells_how_far_it_is(client: Client, project: Path) -> None:
    from wherry.sdk.snapshot import Snapshot
    from wherry.sdk.upload import upload

    progress = Watched()
    snapshot = Snapshot.capture(project)
    upload(snapshot, sending(client, progress), "w")
    assert progress.told[0] == "sending files"
    steps = progress.told[1:]
    assert steps == sorted(steps)
    assert steps[-1][0] >= 1009
    assert all(done <= total for done, total in steps)
    again = Watched()
    upload(snapshot, sending(client, again), "w")
    assert again.told == []


def test_progress_is_not_shown_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(Session(), "reading") as progress:
        progress.step(1, 2)
        progress.say("more")
        progress._show()
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_and_wiped_away(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    session.on_terminal = lambda: True  # type: ignore[method-assign]
    with Progress(session, "reading") as progress:
        progress._show()
        progress.say("sending")
        progress.step(500_000, 1_000_000)
        assert progress._amount() == "500.0 kB of 1.0 MB"
    assert progress._bar is None
    assert capsys.readouterr().out == ""
