"""Which Python a run gets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wherry.cli.interpreter import choose, find, with_python
from wherry.cli.session import Session
from wherry.core.errors import UserErrorException


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_environment(tmp_path / "env")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def make_environment(path: Path) -> Path:
    python = path / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return python


def test_a_folder_a_program_or_a_name(folder: Path) -> None:
    python = str(folder / "env/bin/python")
    assert find("env") == python
    assert find("env/bin/python") == python
    assert find("~/env") == python
    assert find("sh").endswith("/sh")


def test_a_link_is_not_followed(folder: Path) -> None:
    """The path of a virtual environment's link is what makes it one."""
    assert find("env") != str(Path(sys.executable).resolve())


def test_environments_by_name(folder: Path) -> None:
    torch = make_environment(folder / "conda/envs/torch-env")
    (folder / ".conda").mkdir()
    (folder / ".conda/environments.txt").write_text(f"/nowhere\n{folder}/conda/envs/torch-env\n")
    wrapped = make_environment(folder / ".virtualenvs/wrapped-env")
    assert find("torch-env") == str(torch)
    assert find("wrapped-env") == str(wrapped)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no-such-env", "there is no environment 'no-such-env'"),
        ("./missing", "there is no environment"),
        (".", "is a folder without bin/python"),
        ("plain.txt", "cannot be executed"),
    ],
)
def test_what_is_no_environment(folder: Path, text: str, said: str) -> None:
    (folder / "plain.txt").write_text("")
    with pytest.raises(UserErrorException) as caught:
        find(text)
    assert said in str(caught.value)
    assert "hint: " in str(caught.value)


def test_what_is_chosen_when_nothing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    active = str(folder / "env")
    assert choose(Session(), None, None, "local") == sys.executable
    assert choose(Session(), None, str(folder / "gone"), "local") == sys.executable
    assert choose(Session(), None, sys.prefix, "local") == sys.executable
    assert capsys.readouterr().err == ""
    assert choose(Session(), None, active, "local") == str(folder / "env/bin/python")
    assert active in capsys.readouterr().err


def test_another_machine_may_have_what_this_one_has_not(folder: Path) -> None:
    assert choose(Session(), "/opt/there/python", None, "cluster") == "/opt/there/python"
    with pytest.raises(UserErrorException):
        choose(Session(), "/opt/there/python", None, "local")


def test_a_command_sees_the_programs_of_the_environment() -> None:
    assert (
        with_python("python x", "/a b/bin/python") == "export PATH='/a b/bin':\"$PATH\"; python x"
    )
