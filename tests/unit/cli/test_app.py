"""Errors, exit codes, and options that may stand anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Runs, Wherry
from wherry.cli import ending
from wherry.cli.app import run
from wherry.cli.main import main
from wherry.cli.session import Session
from wherry.core.errors import ServerUnavailableError, VersionMismatchError
from wherry.sdk.client import Address, Client

ROOT = Path(__file__).resolve().parents[3]


class Broken(Client):
    """A client whose every call ends in the same way."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(Address("http://nowhere"))
        self._error = error

    def open(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
        raise self._error


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "json", "job", "list"],
        ["job", "-o", "json", "list"],
        ["job", "list", "-o", "json"],
        ["job", "list", "--output=json"],
    ],
)
def test_common_options_stand_before_or_after(
    wherry: Wherry, runs: Runs, arguments: list[str]
) -> None:
    made = runs.queued()
    result = wherry(*arguments)
    assert result.code == 0
    assert [each["id"] for each in json.loads(result.out)] == [made["id"]]


def test_the_last_of_two_wins(wherry: Wherry, runs: Runs) -> None:
    runs.queued()
    assert wherry("-o", "json", "ps", "-o", "tsv").out.count("\t") == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rn"], "did you mean 'run'?"),
        (["job", "shw"], "did you mean 'show'?"),
        (["ps", "--experimnt", "x"], "did you mean '--experiment'?"),
        (["ps", "--status", "Runing"], "'Runing' is none of"),
        (["ps", "--limit", "-3"], "is not a whole number"),
        (["frobnicate"], "the commands are run, ps, logs"),
        (["cancel", "a b"], "did you mean 'wherry job cancel'?\n\nhint: wherry job cancel 'a b'\n"),
        (["show", "x"], "did you mean 'wherry job show'?\n\nhint: wherry job show x\n"),
        (["list"], "did you mean 'wherry job list'?"),
        (["download", "x"], "did you mean 'wherry job download'?"),
        (["submit", "train.py"], "did you mean 'wherry run'?\n\nhint: wherry run train.py\n"),
        (["stop"], "did you mean 'wherry server stop'?"),
        (["start"], "did you mean 'wherry server start'?"),
        (["start", "cpu-cluster"], "hint: wherry compute start cpu-cluster\n"),
        (["job", "cancle"], "did you mean 'cancel'"),
        (["ps", "--query", "[?"], "--query '[?' cannot be used"),
        (["job", "show", "a", "b"], "cannot use 'b'"),
        (["job", "delete"], "missing argument"),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(
    wherry: Wherry, runs: Runs, arguments: list[str], said: str
) -> None:
    runs.queued()
    result = wherry(*arguments)
    assert (result.code, result.out) == (ending.USAGE, "")
    assert result.err.startswith("error: ")
    assert said in result.err.replace("Got unexpected", "unexpected").lower() or said in result.err
    assert "\n\nhint: " in result.err


def test_an_error_is_a_sentence_and_a_remedy(wherry: Wherry) -> None:
    result = wherry("job", "show", "nothing")
    assert result == (
        1,
        "",
        "error: workspace 'w' has no run 'nothing'\n\n" + result.err.split("\n\n")[1],
    )
    assert result.err.split("\n\n")[1] == "hint: wherry ps lists the runs\n"


def test_an_ambiguous_id_lists_the_candidates(wherry: Wherry, runs: Runs) -> None:
    first, second = runs.queued(experiment="churn"), runs.queued(experiment="churn")
    result = wherry("job", "show", "churn_")
    assert result.code == 1
    assert f"\n    {first['id']}\n" in result.err
    assert f"\n    {second['id']}\n" in result.err
    assert "hint: give a few more characters" in result.err


def test_ids_may_be_shortened(wherry: Wherry, runs: Runs) -> None:
    churn = runs.queued(experiment="churn")
    other = runs.queued(experiment="other", display_name="nick")
    for text, meant in (("chu", churn), (churn["id"][-8:], churn), ("nick", other)):
        assert wherry("job", "show", text, "--query", "id", "-o", "tsv").out == meant["id"] + "\n"


DENIED = (
    "error: /x: permission denied\n\n"
    "hint: it belongs to someone else, or its mode forbids it: ls -l shows both\n"
)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ServerUnavailableError("no answer", hint="wait"), 4, "error: no answer\n\nhint: wait\n"),
        (VersionMismatchError("too old"), 4, "error: too old\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            PermissionError(13, "Permission denied", "/x"),
            1,
            DENIED,
        ),
    ],
)
def test_every_end_has_its_code(
    plane: object,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    assert run(["ps"], Session(Broken(error))) == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err.lstrip("\n")) == ("", said)


def test_a_defect_has_no_trace_unless_it_is_asked_for(
    plane: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ps"], Session(Broken(KeyError("x")))) == 1
    plain = capsys.readouterr().err
    assert plain.startswith("error: unexpected KeyError: 'x'\n\nhint: ")
    assert "Traceback" not in plain
    assert run(["ps", "--debug"], Session(Broken(KeyError("x")))) == 1
    assert "Traceback" in capsys.readouterr().err


def test_quiet_says_nothing_but_errors(wherry: Wherry, runs: Runs) -> None:
    made = runs.queued()
    assert wherry("-q", "job", "archive", made["id"]) == (0, "", "")
    assert "archived" in wherry("job", "archive", made["id"]).err
    assert wherry("-q", "job", "show", "nothing").err.startswith("error: ")


def test_a_workspace_that_is_not_there(wherry: Wherry) -> None:
    result = wherry("-w", "nope", "ps")
    assert result.code == 1
    assert "'nope'" in result.err


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    codes = {
        value for name, value in vars(ending).items() if name.isupper() and isinstance(value, int)
    }
    documented = {
        int(line.split("|")[1]) for line in text.splitlines() if line[:3].strip("| ").isdigit()
    }
    assert codes == documented


@pytest.mark.parametrize("arguments", [["logs"], ["job", "show"], ["job", "delete", "--yes"]])
def test_an_empty_id_is_not_the_newest_run(
    wherry: Wherry, runs: Runs, arguments: list[str]
) -> None:
    """As in ``wherry job delete "$id"`` where nothing is in the variable."""
    runs.ended("Completed")
    result = wherry(*arguments, "")
    assert result.code == 1
    assert "an empty id names no run" in result.err
    assert len(json.loads(wherry("ps", "-o", "json").out)) == 1


@pytest.mark.parametrize("noun", ["job", "workspace", "server", "target"])
def test_a_noun_alone_shows_its_help(wherry: Wherry, noun: str) -> None:
    result = wherry(noun)
    assert result.code == 2
    assert result.err.startswith(f"Usage: wherry {noun}")
    assert "hint" not in result.err


def test_an_interrupt_while_modules_load_shows_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("wherry.cli.app.run", interrupted)
    assert main(["ps"]) == ending.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
