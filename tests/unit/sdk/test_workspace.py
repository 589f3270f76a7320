from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from wherry import (
    ConflictError,
    Experiment,
    UserErrorException,
    Workspace,
    WorkspaceException,
)

from .fake_server import FakeServer


def write(path: Path, **fields: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"workspace_name": "lab", **fields}))
    return path


def test_create_needs_a_name_alone(fake: FakeServer) -> None:
    ws = Workspace.create("lab")
    assert ws.name == "lab"
    assert ws.id == "id-of-lab"
    assert list(fake.workspaces) == ["lab"]


def test_create_twice_is_refused_unless_it_may_exist(fake: FakeServer) -> None:
    Workspace.create("lab")
    with pytest.raises(ConflictError):
        Workspace.create("lab")
    assert Workspace.create("lab", exist_ok=True).name == "lab"


def test_azure_arguments_are_accepted_and_kept(fake: FakeServer) -> None:
    ws = Workspace.create(
        "lab",
        subscription_id="s",
        resource_group="g",
        location="westeurope",
        create_resource_group=True,
        storage_account="x",
        hbi_workspace=False,
        tags={"team": 7},
        exist_ok=True,
    )
    assert (ws.subscription_id, ws.resource_group, ws.location) == ("s", "g", "westeurope")
    assert ws.tags == {"team": "7"}


def test_a_bad_name_is_refused_before_anything_is_sent(fake: FakeServer) -> None:
    with pytest.raises(UserErrorException, match="not a valid workspace name"):
        Workspace.create("a/b")
    assert fake.requests == []


def test_get_and_list_and_delete(fake: FakeServer) -> None:
    Workspace.create("lab")
    Workspace.create("other")
    assert Workspace.get("lab").name == "lab"
    assert Workspace("sub", "group", "other").name == "other"
    found = Workspace.list()
    assert {name: ws[0].name for name, ws in found.items()} == {"lab": "lab", "other": "other"}
    found["other"][0].delete()
    assert list(Workspace.list()) == ["lab"]


def test_a_missing_workspace_is_told_with_the_remedy(fake: FakeServer) -> None:
    with pytest.raises(WorkspaceException, match="no workspace 'none'") as caught:
        Workspace.get("none")
    assert caught.value.hint == "make it with: wherry workspace create none"


def test_get_without_a_name_takes_the_setting(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Workspace.create("mine")
    monkeypatch.setenv("WHERRY_WORKSPACE", "mine")
    assert Workspace.get().name == "mine"


def test_write_config_and_from_config(workspace: Workspace, tmp_path: Path) -> None:
    project = tmp_path / "project"
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    workspace.write_config(project)
    written = json.loads((project / ".azureml" / "config.json").read_text())
    assert written["workspace_name"] == "lab"
    assert written["subscription_id"]
    assert written["resource_group"]
    assert Workspace.from_config(deep) == workspace


def test_a_remote_server_is_written_into_the_file_a_home_is_not(
    workspace: Workspace, fake: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write_config()
    written = json.loads((tmp_path / ".azureml" / "config.json").read_text())
    assert written["server"] == fake.url
    assert Workspace.from_config().name == "lab"
    monkeypatch.delenv("WHERRY_SERVER")
    with pytest.raises(UserErrorException, match="which the settings do not"):
        Workspace.from_config()  # no token for a server that only a file knows
    workspace.write_config(tmp_path, "local.json")
    assert "server" not in json.loads((tmp_path / ".azureml" / "local.json").read_text())


def test_a_file_of_azure_serves_as_it_is(workspace: Workspace, tmp_path: Path) -> None:
    write(tmp_path / "config.json", subscription_id="s", resource_group="g")
    ws = Workspace.from_config()
    assert (ws.name, ws.subscription_id, ws.resource_group) == ("lab", "s", "g")


def test_the_search_order_within_a_folder(fake: FakeServer, tmp_path: Path) -> None:
    places = [
        ".azureml/config.json",
        ".azureml/project.json",
        "aml_config/config.json",
        "aml_config/project.json",
        "config.json",
        "project.json",
    ]
    for number, place in enumerate(places):
        Workspace.create(f"ws{number}")
        write(tmp_path / place, workspace_name=f"ws{number}")
    for number, place in enumerate(places):
        assert Workspace.from_config().name == f"ws{number}"
        (tmp_path / place).unlink()


def test_a_nearer_folder_wins_over_a_better_name(
    fake: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Workspace.create("near")
    Workspace.create("far")
    write(tmp_path / ".azureml" / "config.json", workspace_name="far")
    write(tmp_path / "sub" / "project.json", workspace_name="near")
    monkeypatch.chdir(tmp_path / "sub")
    assert Workspace.from_config().name == "near"


def test_a_path_to_the_file_itself(workspace: Workspace, tmp_path: Path) -> None:
    path = write(tmp_path / "elsewhere" / "mine.json")
    assert Workspace.from_config(path).name == "lab"
    assert Workspace.from_config(tmp_path / "elsewhere", _file_name="mine.json").name == "lab"


def test_the_scope_of_an_old_project_file(workspace: Workspace, tmp_path: Path) -> None:
    scope = "/subscriptions/s/resourceGroups/g/providers/M.ML/workspaces/lab"
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "project.json").write_text(json.dumps({"Scope": scope}))
    ws = Workspace.from_config()
    assert (ws.name, ws.subscription_id, ws.resource_group) == ("lab", "s", "g")


def test_no_file_is_told_in_azures_words(fake: FakeServer, tmp_path: Path) -> None:
    said = (
        f"The workspace configuration file config.json, could not be found in {tmp_path} "
        "or its parent directories"
    )
    with pytest.raises(UserErrorException, match=said):
        Workspace.from_config()


def test_inside_a_run_no_file_is_needed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_WORKSPACE", "lab")
    assert Workspace.from_config().name == "lab"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"workspace_name": ""}'])
def test_a_file_that_says_nothing_is_refused(
    fake: FakeServer, tmp_path: Path, content: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserErrorException, match=r"config\.json"):
        Workspace.from_config()


def test_a_file_that_names_a_missing_workspace(fake: FakeServer, tmp_path: Path) -> None:
    write(tmp_path / "config.json", workspace_name="gone")
    with pytest.raises(WorkspaceException, match="no workspace 'gone'"):
        Workspace.from_config()


def test_experiments_by_name(workspace: Workspace) -> None:
    for name in ("a", "b", "c"):
        Experiment(workspace, name).refresh()
    workspace.experiments["b"].archive()
    assert list(workspace.experiments) == ["a", "c"]
    assert workspace.experiments["a"].id == "id-of-a"


def test_runs_by_page_and_filter(workspace: Workspace, fake: FakeServer) -> None:
    for number in range(5):
        fake.new_run("lab", {"experiment": "e", "tags": {"n": str(number)}})
    first = workspace.list_runs(limit=2)
    second = workspace.list_runs(limit=2, cursor=first.next_cursor)
    numbers = [record["number"] for record in [*first.items, *second.items]]
    assert numbers == [5, 4, 3, 2]
    assert [r.number for r in workspace.iter_runs(tags={"n": "3"})] == [4]
    assert [r.number for r in workspace.iter_runs(tags="n", experiment="e")] == [5, 4, 3, 2, 1]
    assert list(workspace.iter_runs(status=["Failed", "Canceled"])) == []
    with pytest.raises(TypeError):
        workspace.list_runs(statuss="Failed")


def test_a_long_listing_is_fetched_page_by_page(workspace: Workspace, fake: FakeServer) -> None:
    for _ in range(450):
        fake.new_run("lab", {"experiment": "e"})
    runs = workspace.iter_runs()
    next(runs)
    assert fake.count("GET .*/runs") == 1
    assert 1 + len(list(runs)) == 450
    assert fake.count("GET .*/runs") == 3


def test_a_shortened_id(workspace: Workspace, fake: FakeServer) -> None:
    fake.new_run("lab", {"experiment": "e", "run_id": "abc_1"})
    fake.new_run("lab", {"experiment": "e", "run_id": "abd_2"})
    assert workspace.resolve_run("abc").id == "abc_1"
    with pytest.raises(ConflictError) as caught:
        workspace.resolve_run("ab")
    assert caught.value.fields["candidates"] == ["abc_1", "abd_2"]
    with pytest.raises(UserErrorException):
        workspace.resolve_run("")


def test_details_and_forms(workspace: Workspace, fake: FakeServer) -> None:
    details = workspace.get_details()
    assert details["name"] == "lab"
    assert details["workspaceid"] == "id-of-lab"
    azure = (
        "id name location type tags workspaceid description friendlyName creationTime "
        "containerRegistry keyVault applicationInsights identityPrincipalId identityTenantId "
        "identityType storageAccount sku resourceCmkUri hbiWorkspace imageBuildCompute "
        "systemDatastoresAuthMode"
    )
    assert sorted(details) == sorted(re.findall(r"\w+", azure))
    assert "name='lab'" in repr(workspace)
    assert "<table" in workspace._repr_html_()


def test_mlflow_is_told_where_it_is_and_given_the_token(
    workspace: Workspace, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "of another server")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")  # MLflow would send that instead
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    assert workspace.mlflow_tracking_uri == f"{fake.url}/mlflow/lab"
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == "of another server"
    assert workspace.get_mlflow_tracking_uri() == f"{fake.url}/mlflow/lab"
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == workspace._client.token
    assert "MLFLOW_TRACKING_USERNAME" not in os.environ
    assert "MLFLOW_TRACKING_PASSWORD" not in os.environ


def test_a_snapshot_goes_there_and_back(workspace: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "a.py").write_text("a")
    (source / "deep" / "b.py").write_text("b")
    snapshot_id = workspace.take_snapshot(source)
    paths = [file["path"] for file in workspace.show_snapshot(snapshot_id)["files"]]
    assert sorted(paths) == ["a.py", "deep/b.py"]
    target = tmp_path / "target"
    assert workspace.restore_snapshot(snapshot_id, target) == str(target)
    assert (target / "deep" / "b.py").read_text() == "b"
    assert sorted(path.name for path in target.iterdir()) == ["a.py", "deep"]


def test_a_snapshot_is_not_restored_over_files(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").write_text("mine")
    with pytest.raises(UserErrorException, match="not an empty folder"):
        workspace.restore_snapshot("x", tmp_path / "target")
    assert (tmp_path / "target" / "precious").read_text() == "mine"


def test_a_run_of_another_workspace_stays_in_it(workspace: Workspace, fake: FakeServer) -> None:
    made = fake.new_run("other", {"experiment": "churn"})
    run = workspace.get_run(made["id"])
    assert run.experiment.workspace.name == "other"
    assert run.experiment.workspace._client is workspace._client
