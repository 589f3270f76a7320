from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wherry import Experiment, Run, ScriptRunConfig, UserErrorException, Workspace
from wherry.core.errors import NotFoundError, ServerUnavailableError
from wherry.sdk import client as client_module
from wherry.sdk import submission
from wherry.sdk.settings import load
from wherry.sdk.submission import capture, submit_many
from wherry.sdk.upload import upload

from .fake_server import TOKEN, FakeServer


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return folder


@pytest.fixture
def config(source: Path) -> ScriptRunConfig:
    return ScriptRunConfig(source, "train.py", ["--alpha", 0.5], environment=None)


def test_submit_sends_what_was_configured(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    run = experiment.submit(config, tags={"try": 1}, display_name="first", properties={"p": 2})
    spec = fake.runs[run.id]["spec"]
    assert spec["experiment"] == "churn"
    assert spec["script"] == "train.py"
    assert spec["arguments"] == ["--alpha", "0.5"]
    assert spec["target"] == "local"
    assert spec["tags"] == {"try": "1"}
    assert spec["properties"] == {"p": "2"}
    assert spec["display_name"] == "first"
    assert run.experiment is experiment
    assert run.status == "Queued"
    assert run.get_snapshot_id() in fake.snapshots


def test_the_first_submission_sends_the_files_the_second_one_request(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    experiment.submit(config)
    assert len(fake.blobs) == 1
    fake.requests.clear()
    experiment.submit(config)
    assert fake.requests == ["POST /api/v1/workspaces/lab/runs"]


def change_before_upload(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*arguments: Any, **options: Any) -> str:
        path.write_text("print('changed')\n")
        return upload(*arguments, **options)

    monkeypatch.setattr(submission, "upload", late)


def test_a_file_that_changes_between_capture_and_upload_is_sent_as_it_is_now(
    experiment: Experiment,
    config: ScriptRunConfig,
    source: Path,
    fake: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_before_upload(source / "train.py", monkeypatch)
    assert experiment.submit(config).get_snapshot_id() in fake.snapshots


def test_the_same_for_many_runs_at_once(
    experiment: Experiment,
    config: ScriptRunConfig,
    source: Path,
    fake: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_before_upload(source / "train.py", monkeypatch)
    post = client_module.Client.post
    sent: list[dict[str, Any]] = []

    def bulk(self: client_module.Client, path: str, json: Any = None, **options: Any) -> Any:
        if not path.endswith("/runs/bulk"):
            return post(self, path, json, **options)
        sent.extend(json["runs"])
        return {"items": [{"id": f"r{number}"} for number in range(len(sent))]}

    monkeypatch.setattr(client_module.Client, "post", bulk)
    client = client_module.Client(client_module.Address(fake.url, TOKEN))
    submit_many(client, "lab", "churn", [config, config], load(), {})
    assert {each["snapshot_id"] for each in sent} <= set(fake.snapshots)
    assert len(sent) == 2


def test_progress_is_told(experiment: Experiment, config: ScriptRunConfig) -> None:
    told: list[tuple[int, int]] = []
    experiment.submit(config, progress=lambda sent, total: told.append((sent, total)))
    assert told[-1][0] == told[-1][1] > 0


def test_only_a_changed_file_is_sent(
    experiment: Experiment, config: ScriptRunConfig, source: Path, fake: FakeServer
) -> None:
    (source / "other.py").write_text("x")
    experiment.submit(config)
    (source / "train.py").write_text("print('changed')\n")
    fake.blobs.clear()
    fake.blobs["2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"] = b"x"
    experiment.submit(config)
    assert sorted(fake.blobs.values()) == [b"print('changed')\n", b"x"]


def test_a_server_that_lost_its_snapshots_gets_them_again(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    experiment.submit(config)
    fake.snapshots.clear()
    fake.blobs.clear()
    run = experiment.submit(config)
    assert run.get_snapshot_id() in fake.snapshots


def test_the_second_time_only_the_differences_are_told(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    folder = Path(config.source_directory)
    (folder / "deep").mkdir()
    for name in ("a.py", "b.py", "deep/c.py"):
        (folder / name).write_text(name)
    experiment.submit(config)
    (folder / "a.py").write_text("changed")
    (folder / "b.py").unlink()
    (folder / "deep" / "d.py").write_text("new")
    fake.requests.clear()
    run = experiment.submit(config)
    assert fake.count("POST /api/v1/workspaces/lab/snapshots") == 1
    assert fake.count("POST /api/v1/blobs") == 0
    paths = {file["path"] for file in fake.snapshots[str(run.get_snapshot_id())]}
    assert {"a.py", "deep/c.py", "deep/d.py"} <= paths
    assert "b.py" not in paths


def test_a_large_difference_is_sent_apart(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    experiment.submit(config)
    data = os.urandom(3 << 20)
    (Path(config.source_directory) / "large.bin").write_bytes(data)
    run = experiment.submit(config)
    assert data in fake.blobs.values()
    assert run.get_snapshot_id() in fake.snapshots


def test_another_workspace_is_asked_anew(
    workspace: Workspace, experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    experiment.submit(config)
    other = Workspace.create("other")
    fake.requests.clear()
    Experiment(other, "churn").submit(config)
    assert fake.count("POST /api/v1/workspaces/other/snapshots") == 1


def test_a_lost_answer_makes_no_second_run(
    experiment: Experiment,
    config: ScriptRunConfig,
    fake: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "_PAUSES_S", (0.0, 0.01))
    fake.drop("POST /api/v1/workspaces/lab/runs", "after")
    run = experiment.submit(config)
    assert list(fake.runs) == [run.id]
    assert fake.count("POST /api/v1/workspaces/lab/runs") == 2


def test_a_chosen_key_makes_one_run(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    first = experiment.submit(config, submission_key="once")
    assert experiment.submit(config, submission_key="once") == first
    assert len(fake.runs) == 1


def test_a_missing_script_is_refused_before_anything_is_sent(
    experiment: Experiment, source: Path, fake: FakeServer
) -> None:
    fake.requests.clear()
    with pytest.raises(
        UserErrorException, match=r"no script 'trian\.py'.*did you mean 'train\.py'"
    ):
        experiment.submit(ScriptRunConfig(source, "trian.py"))
    assert fake.requests == []


def test_a_script_that_is_ignored_is_taken_even_so(
    experiment: Experiment, config: ScriptRunConfig, source: Path, fake: FakeServer
) -> None:
    (source / ".wherryignore").write_text("*.py\n")
    run = experiment.submit(config)
    files = fake.snapshots[str(run.get_snapshot_id())]
    assert "train.py" in [file["path"] for file in files]


def test_what_the_snapshot_left_out_is_told(
    experiment: Experiment,
    config: ScriptRunConfig,
    source: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(8):
        (source / f"link{number}").symlink_to("nowhere")
    experiment.submit(config)
    said = capsys.readouterr().err
    assert said.count("wherry: snapshot: link") == 5
    assert "and 3 more" in said


def test_what_was_told_is_told_again_when_it_has_changed(
    experiment: Experiment,
    config: ScriptRunConfig,
    source: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def told() -> int:
        experiment.submit(config)
        return capsys.readouterr().err.count("wherry: snapshot: ")

    (source / "one").symlink_to("nowhere")
    assert (told(), told()) == (1, 0)
    (source / "two").symlink_to("nowhere")
    assert (told(), told()) == (2, 0)
    capture(config.source_directory, load(), [], remind=True)
    assert capsys.readouterr().err.count("wherry: snapshot: ") == 2
    for name in ("one", "two"):
        (source / name).unlink()
    assert told() == 0
    (source / "one").symlink_to("nowhere")
    assert told() == 1


def test_unknown_options_are_refused_with_a_suggestion(
    experiment: Experiment, config: ScriptRunConfig
) -> None:
    with pytest.raises(TypeError, match="did you mean 'display_name'"):
        experiment.submit(config, displayname="x")


def test_something_else_cannot_be_submitted(experiment: Experiment) -> None:
    with pytest.raises(UserErrorException, match="a str cannot be submitted"):
        experiment.submit("train.py")  # type: ignore[arg-type]


def test_git_is_noted(experiment: Experiment, config: ScriptRunConfig, source: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(source)]
    subprocess.run([*git, "init", "-q", "-b", "trunk"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    properties = experiment.submit(config).get_properties()
    assert properties["azureml.git.branch"] == "trunk"
    assert properties["azureml.git.commit"] == head.stdout.strip()
    assert properties["mlflow.source.git.commit"] == head.stdout.strip()


def test_a_plan_stores_nothing(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    plan = experiment.plan(config)
    assert plan["argv"] == ["train.py"]
    assert (fake.runs, fake.snapshots) == ({}, {})


def test_runs_newest_first(
    experiment: Experiment, config: ScriptRunConfig, fake: FakeServer
) -> None:
    first = experiment.submit(config, tags={"a": "1"})
    second = experiment.submit(config)
    fake.new_run("lab", {"experiment": "another"})
    first.child_run()
    assert list(experiment.get_runs()) == [second, first]
    assert list(experiment.get_runs(tags={"a": "1"})) == [first]
    assert len(list(experiment.get_runs(include_children=True))) == 3
    fake.set_status(first.id, "Failed")
    assert list(Run.list(experiment, status="Failed")) == [first]


def test_archive_reactivate_and_list(workspace: Workspace, experiment: Experiment) -> None:
    experiment.archive()
    assert experiment.archived_time is not None
    assert Experiment.list(workspace) == []
    assert [e.name for e in Experiment.list(workspace, view_type="ArchivedOnly")] == ["churn"]
    experiment.reactivate()
    assert Experiment(workspace, "churn").archived_time is None
    assert [e.name for e in Experiment.list(workspace, view_type="All")] == ["churn"]
    with pytest.raises(UserErrorException):
        Experiment.list(workspace, view_type="Some")


def test_tags(experiment: Experiment) -> None:
    experiment.tag("a", "1")
    experiment.set_tags({"b": 2, "c": None})
    experiment.remove_tags(["a"])
    assert experiment.tags == {"b": "2", "c": ""}
    assert Experiment.list(experiment.workspace, tags={"b": "2"})[0].name == "churn"
    assert Experiment.list(experiment.workspace, tags={"b": "3"}) == []


def test_delete_by_id(workspace: Workspace, experiment: Experiment) -> None:
    Experiment.delete(workspace, experiment.id)
    assert workspace.experiments == {}
    with pytest.raises(NotFoundError):
        Experiment.delete(workspace, "nothing")


def test_a_bad_name_is_refused(workspace: Workspace) -> None:
    with pytest.raises(UserErrorException, match="not a valid experiment name"):
        Experiment(workspace, "a b")


def test_start_logging_snapshots_a_small_folder(
    experiment: Experiment, source: Path, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source)
    run = experiment.start_logging()
    assert run.get_snapshot_id() in fake.snapshots
    assert run.type is None
    run.complete()


def test_start_logging_leaves_a_large_folder_alone(
    experiment: Experiment,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("wherry.sdk.experiment._MANY_FILES", 0)
    monkeypatch.chdir(source)
    run = experiment.start_logging()
    assert run.get_snapshot_id() is None
    assert "no snapshot is taken of" in capsys.readouterr().err
    run.complete()
    named = experiment.start_logging(snapshot_directory=source)
    assert named.get_snapshot_id()
    named.complete()


def test_an_absent_server_is_told(
    experiment: Experiment,
    config: ScriptRunConfig,
    fake: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "_PAUSES_S", (0.0,))
    fake.close()
    with pytest.raises(ServerUnavailableError, match="cannot be reached"):
        experiment.submit(config)


def test_forms(experiment: Experiment) -> None:
    assert str(experiment) == "Experiment(Name: churn,\nWorkspace: lab)"
    assert "churn" in experiment._repr_html_()
    assert "experiment=churn" in experiment.get_portal_url()
