"""``wherry environment build|lock|prune`` with a real server and real packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.homes import Home

WHERRY = str(Path(sys.executable).with_name("wherry"))
FILE = """\
name: tiny
conda_file:
  dependencies:
    - pip: [six==1.16.0]
"""


def wherry(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([WHERRY, *words], capture_output=True, text=True, cwd=home.folder)


def test_built_locked_and_pruned(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    (home.folder / "tiny.yml").write_text(FILE)
    assert wherry(home, "environment", "create", "-f", "tiny.yml").returncode == 0
    built = wherry(home, "environment", "build", "tiny")
    assert built.returncode == 0, built.stderr
    assert "six==1.16.0" in built.stderr
    assert built.stdout == ""
    lock = wherry(home, "environment", "lock", "tiny")
    assert [each["version"] for each in json.loads(lock.stdout)["pypi"]] == ["1.16.0"]
    assert "resolving" not in lock.stderr
    (home.folder / "tiny.lock.json").write_text(lock.stdout)
    again = wherry(home, "environment", "lock", "tiny.lock.json")
    assert json.loads(again.stdout)["pypi"] == json.loads(lock.stdout)["pypi"], again.stderr
    listed = wherry(home, "environment", "list-built")
    assert listed.stdout.splitlines()[0].split() == ["KIND", "NAME", "SIZE", "LAST", "USED"]
    assert "environment 'tiny'" in listed.stdout
    records = json.loads(wherry(home, "environment", "list-built", "-o", "json").stdout)
    assert {each["kind"] for each in records} == {"environment"}
    assert all(each["size"] > 0 for each in records)
    kept = wherry(home, "environment", "prune", "--older-than", "1d")
    assert (kept.stdout, kept.returncode) == ("", 0)
    gone = wherry(home, "environment", "prune", "--all")
    assert "tiny" in gone.stdout
    assert " removed, " in gone.stderr  # one, or two where this Python is on the machine twice


def test_what_was_not_done_as_asked_is_said_at_the_end(home: Home) -> None:
    (home.folder / "train.py").write_text("pass")
    (home.folder / "old.txt").write_text("azureml-defaults\n")
    done = wherry(home, "run", "--environment", "old.txt", "train.py")
    assert done.returncode == 0, done.stderr
    assert "wherry: note: azureml-defaults is not installed" in done.stderr


def test_a_build_that_fails_names_the_line_and_its_log(home: Home) -> None:
    (home.folder / "train.py").write_text("pass")
    (home.folder / "pins.txt").write_text("six==1.4.0\npython-dateutil==2.9.0\n")
    done = wherry(home, "run", "--environment", "pins.txt", "train.py")
    assert done.returncode == 3
    assert "pins.txt, line" in done.stderr
    log = done.stderr.strip().rpartition("hint: all of its output: wherry ")[2].split()
    assert log[:2] == ["logs", "--build"]
    assert "unsatisfiable" in wherry(home, *log).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing says what is to go"),
        (["--older-than", "soon"], "'soon' is no age"),
        (["--limit", "much"], "'much' is no size"),
    ],
)
def test_what_is_to_go_must_be_said(home: Home, words: list[str], said: str) -> None:
    done = wherry(home, "environment", "prune", *words)
    assert done.returncode == 2
    assert said in done.stderr
