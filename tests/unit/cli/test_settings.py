"""``config``, ``workspace``, ``target`` and what completes to them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from tests.unit.cli.conftest import Runs, Wherry
from wherry.cli import candidates
from wherry.cli.app import run
from wherry.cli.ps import ps
from wherry.cli.session import Session
from wherry.cli.settings_file import change
from wherry.core.errors import UserErrorException
from wherry.sdk.client import Client


def test_config_shows_values_and_where_they_come_from(wherry: Wherry, tmp_path: Path) -> None:
    wherry("config", "set", "port", "8700")
    rows = {row["name"]: row for row in json.loads(wherry("config", "-o", "json").out)}
    assert (rows["workspace"]["value"], rows["workspace"]["origin"]) == ("w", "environment")
    assert (rows["port"]["value"], rows["port"]["origin"]) == (8700, "file")
    assert (rows["output"]["value"], rows["output"]["origin"]) == ("json", "flag")
    assert rows["host"]["origin"] == "default"
    assert "WHERRY_PORT" in wherry("config").out
    assert str(tmp_path / "home" / "config") in wherry("config").err


def test_config_get_set_unset(wherry: Wherry, tmp_path: Path) -> None:
    assert wherry("config", "get", "port").out == "0\n"
    assert wherry("config", "set", "port", "8700").code == 0
    assert wherry("config", "get", "port").out == "8700\n"
    assert (tmp_path / "home/config").stat().st_mode & 0o777 == 0o600
    assert wherry("config", "unset", "port").code == 0
    assert wherry("config", "get", "port").out == "0\n"


def test_a_token_is_not_shown(wherry: Wherry) -> None:
    printed = wherry("config", "set", "token", "very-secret")
    shown = [wherry("config"), wherry("config", "get", "token"), wherry("config", "-o", "json")]
    assert all("very-secret" not in each.out + each.err for each in (printed, *shown))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set", "prot", "1"], "did you mean 'port'"),
        (["set", "port", "many"], "which is not a port"),
        (["set", "home", "/x"], "export WHERRY_HOME=/x"),
        (["set", "workspace", "a b"], "not a valid workspace name"),
        (["get", "nothing"], "there is no setting 'nothing'"),
    ],
)
def test_what_cannot_be_set(
    wherry: Wherry, tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = wherry("config", *arguments)
    assert result.code == 1
    assert said in result.err
    assert not (tmp_path / "home/config").exists()


def test_one_line_changes_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path))
    file = tmp_path / "config"
    file.write_text("# mine\n[wherry]\nport = 1\nworkspace = a\n")
    change("workspace", "b")
    assert file.read_text() == "# mine\n[wherry]\nport = 1\nworkspace = b\n"
    change("port", None)
    assert file.read_text() == "# mine\n[wherry]\nworkspace = b\n"
    with pytest.raises(UserErrorException):
        change("output", "paper")
    assert "paper" not in file.read_text()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("port = many\nworkspace = w\n", "which is not a port"),
        ("prot = 1\nworkspace = w\n", "'prot', which is no setting"),
        ("no setting\nworkspace = w\n", "cannot be read"),
    ],
)
def test_a_broken_file_is_named(wherry: Wherry, tmp_path: Path, written: str, said: str) -> None:
    file = tmp_path / "home/config"
    file.parent.mkdir(exist_ok=True)
    file.write_text(written)
    printed = wherry("ps").err
    assert said in printed
    assert str(file) in printed


def test_a_broken_setting_can_be_repaired(wherry: Wherry, tmp_path: Path) -> None:
    file = tmp_path / "home/config"
    file.parent.mkdir(exist_ok=True)
    file.write_text("port = many\n")
    assert wherry("ps").code == 1
    assert wherry("config", "set", "port", "8700").code == 0
    file.write_text("port = many\n")
    assert wherry("config", "unset", "port").code == 0
    assert wherry("ps").code == 0


def test_workspaces(wherry: Wherry, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wherry("workspace", "create", "lab", "--tag", "a=b", "--description", "Ours").code == 0
    assert wherry("workspace", "create", "lab").code == 1
    assert wherry("workspace", "create", "lab", "--exist-ok").code == 0
    assert wherry("workspace", "create", "../x").code == 1
    listed = wherry("workspace", "list").out.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["*", "w"], ["lab", listed[2].split()[1]]]
    shown = json.loads(wherry("workspace", "show", "lab", "-o", "json").out)
    assert (shown["tags"], shown["description"]) == ({"a": "b"}, "Ours")
    used = wherry("workspace", "use", "lab")
    assert "WHERRY_WORKSPACE says w" in used.err
    monkeypatch.delenv("WHERRY_WORKSPACE")
    assert wherry("workspace", "show", "--query", "name", "-o", "tsv").out == "lab\n"
    assert wherry("workspace", "use", "none").code == 1
    runs.queued()
    assert "has not ended" in wherry("workspace", "delete", "w", "--yes").err
    assert wherry("workspace", "delete", "lab", "--yes").code == 0
    assert wherry("workspace", "show", "lab").code == 1


def test_a_file_beside_the_project_names_the_workspace(
    wherry: Wherry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-w, WHERRY_WORKSPACE, 'workspace use', config.json, the default: the first of them wins."""
    monkeypatch.delenv("WHERRY_WORKSPACE")
    for name in ("default", "churn", "other"):
        wherry("workspace", "create", name)
    deep = tmp_path / "project" / "src"
    (tmp_path / "project" / ".azureml").mkdir(parents=True)
    deep.mkdir()
    monkeypatch.chdir(deep)
    file = tmp_path / "project" / ".azureml" / "config.json"

    def used(*arguments: str) -> tuple[str, str]:
        row = json.loads(wherry("config", *arguments, "-o", "json").out)[4]
        assert row["name"] == "workspace"
        assert wherry("config", "get", "workspace", *arguments).out.strip() == row["value"]
        shown = wherry("workspace", "show", *arguments, "--query", "name", "-o", "tsv").out
        assert shown.strip() == row["value"]
        assert wherry("ps", *arguments).err.startswith(f"wherry: no runs in workspace {shown}")
        return row["value"], row["origin"]

    assert used() == ("default", "default")
    file.write_text(json.dumps({"workspace_name": "churn"}))
    (deep / "config.json").write_text('{"hidden_size": 768}')
    assert used() == ("churn", str(file))
    assert "*  churn" in wherry("workspace", "list").out
    assert used("-w", "other") == ("other", "flag")
    wherry("workspace", "use", "default")
    assert used() == ("default", "file")
    monkeypatch.setenv("WHERRY_WORKSPACE", "other")
    assert used() == ("other", "environment")


@pytest.mark.parametrize(
    "content",
    [
        '{"workspace_name": "not-here"}',
        '{"workspace_name": "w", "server": "http://elsewhere:1"}',
        '{"workspace_name": "a/../b"}',
        "no json",
        "[]",
    ],
)
def test_a_file_that_names_no_workspace_of_this_server_counts_for_nothing(
    wherry: Wherry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.delenv("WHERRY_WORKSPACE")
    wherry("workspace", "create", "default")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(content)
    assert wherry("config", "get", "workspace").out == "default\n"
    assert wherry("ps").err.startswith("wherry: no runs in workspace default\n")


def test_settings_are_shown_without_a_server(
    plane: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("WHERRY_WORKSPACE")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"workspace_name": "churn"}')
    assert run(["config", "get", "workspace"], Session()) == 0
    assert not (tmp_path / "home").exists()
    monkeypatch.setenv("WHERRY_SERVER", "http://127.0.0.1:1")
    assert run(["config", "get", "workspace"], Session()) == 0
    assert capsys.readouterr().out == "churn\nchurn\n"


def test_completion_looks_where_commands_look(
    client: Client, wherry: Wherry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wherry("workspace", "create", "churn")
    made = client.post("/workspaces/churn/runs/interactive", json={"experiment": "e"})["id"]
    monkeypatch.delenv("WHERRY_WORKSPACE")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"workspace_name": "churn"}')
    assert [item.value for item in candidates.find("runs", Session(client), "")] == [made]


def test_an_unknown_setting_can_be_taken_out_of_the_file(wherry: Wherry, tmp_path: Path) -> None:
    file = tmp_path / "home/config"
    file.parent.mkdir(exist_ok=True)
    file.write_text("prot = 1\noutput = json\n")
    refused = wherry("config")
    assert "did you mean 'port'?" in refused.err
    assert "hint: take it out with: wherry config unset prot" in refused.err
    assert wherry("config", "unset", "prot").code == 0
    assert file.read_text() == "output = json\n"
    assert wherry("config", "unset", "prot").code == 1


def test_a_status_completes_in_any_case() -> None:
    parameter = next(each for each in ps.params if each.name == "statuses")
    found = parameter.type.shell_complete(click.Context(ps), parameter, "run")
    assert [item.value for item in found] == ["Running"]


def test_what_the_shell_completes_to(client: Client, runs: Runs) -> None:
    made = runs.queued(experiment="churn", display_name="nick")["id"]
    runs.queued(experiment="other", display_name="two words")

    def found(what: str, incomplete: str) -> list[str]:
        return [item.value for item in candidates.find(what, Session(client), incomplete)]

    assert found("runs", "chu") == [made]
    assert found("runs", "ni") == ["nick"]
    assert found("runs", "two") == []
    assert found("workspaces", "") == ["w"]
    assert found("experiments", "o") == ["other"]
    assert found("targets", "l") == ["local"]


def test_completion_is_silent_without_a_server(
    plane: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert candidates.find("runs", Session(), "x") == []
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(wherry: Wherry, shell: str) -> None:
    script = wherry("completion", shell)
    assert script.code == 0
    assert "_WHERRY_COMPLETE" in script.out
    assert wherry("completion", "tcsh").code == 2


def test_options_complete_through_click(client: Client, runs: Runs) -> None:
    from click.shell_completion import ShellComplete

    from wherry.cli.app import cli

    made = runs.queued()["id"]
    shell = ShellComplete(cli, {"obj": Session(client)}, "wherry", "_WHERRY_COMPLETE")

    def found(arguments: list[str], incomplete: str) -> list[str]:
        return [item.value for item in shell.get_completions(arguments, incomplete)]

    assert found([], "wor") == ["workspace"]
    assert found(["job"], "arch") == ["archive"]
    assert found(["run"], "--dry") == ["--dry-run"]
    assert found(["job", "show"], made[:3]) == [made]
    assert found(["logs"], "e_") == [made]
    assert found(["ps", "--workspace"], "") == ["w"]
    assert found(["config", "get"], "por") == ["port"]
    assert [value.lower() for value in found(["ps", "--status"], "Comp")] == ["completed"]


def test_colour_can_be_switched_off(
    plane: object, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wherry.cli.app import cli

    def color(**variables: str) -> bool | None:
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        session = Session(client)
        cli.main(["config", "get", "port"], obj=session, standalone_mode=False)
        return session.color

    assert color() is None
    assert color(NO_COLOR="") is None
    assert color(NO_COLOR="1") is False
    assert color(NO_COLOR="whatever") is False
    assert color(TERM="dumb") is False
    assert color(TERM="xterm") is None
    assert click.unstyle(Session().style("x", fg="red")) == "x"
