"""``wherry mlflow``: lines that a shell takes over."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.planes import TOKEN

from .conftest import Wherry


def test_a_shell_takes_the_lines_over(wherry: Wherry) -> None:
    printed = wherry("mlflow")
    assert printed.code == 0
    script = f'{printed.out}\nprintf "%s %s" "$MLFLOW_TRACKING_URI" "$MLFLOW_TRACKING_TOKEN"'
    seen = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    address, token = seen.stdout.split()
    assert address.endswith("/mlflow/w")
    assert token == TOKEN
    assert TOKEN not in address


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("fish", f"set -gx MLFLOW_TRACKING_TOKEN '{TOKEN}'"),
        ("powershell", f"$env:MLFLOW_TRACKING_TOKEN = '{TOKEN}'"),
    ],
)
def test_other_shells(wherry: Wherry, shell: str, line: str) -> None:
    assert line in wherry("mlflow", "--shell", shell).out.splitlines()


def test_programs_get_data(wherry: Wherry) -> None:
    found = json.loads(wherry("mlflow", "-o", "json").out)
    assert found["MLFLOW_TRACKING_TOKEN"] == TOKEN
    assert wherry("mlflow", "--query", "MLFLOW_TRACKING_TOKEN", "-o", "tsv").out.strip() == TOKEN


def test_a_terminal_is_not_shown_the_token(wherry: Wherry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    printed = wherry("mlflow")
    assert TOKEN not in printed.out + printed.err
    assert "MLFLOW_TRACKING_URI" in printed.out
    assert 'eval "$(wherry mlflow)"' in printed.err


def test_what_comes_before_the_token_is_told(
    wherry: Wherry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    assert "MLFLOW_TRACKING_USERNAME is set" in wherry("mlflow").err


def test_a_workspace_that_is_not_there(wherry: Wherry) -> None:
    printed = wherry("mlflow", "-w", "nowhere")
    assert printed.code == 1
    assert printed.out == ""
    assert "nowhere" in printed.err
