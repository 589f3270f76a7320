"""Which folder travels with a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherry.cli.source import experiment_of, source_of
from wherry.core.errors import UserErrorException


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path.resolve()
    for path in ("home/train.py", "home/project/train.py", "home/project/lib/deep.py", "else/x.py"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / "home/project/run.sh").write_text("")
    monkeypatch.setenv("HOME", str(root / "home"))
    monkeypatch.chdir(root / "home" / "project")
    return root


def test_the_current_folder_if_the_script_is_in_it(tree: Path) -> None:
    project = str(tree / "home/project")
    assert source_of("train.py", None) == (project, "train.py", "")
    assert source_of("lib/deep.py", None) == (project, "lib/deep.py", "")
    assert source_of(str(tree / "home/project/lib/deep.py"), None)[:2] == (project, "lib/deep.py")
    assert source_of(None, None) == (project, None, "")


def test_else_the_folder_of_the_script(tree: Path) -> None:
    assert source_of("../../else/x.py", None) == (str(tree / "else"), "x.py", "")


def test_never_all_of_the_home_by_accident(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree / "home")
    folder, script, notice = source_of("project/train.py", None)
    assert (folder, script) == (str(tree / "home/project"), "train.py")
    assert str(tree / "home/project") in notice
    for command in ("train.py", None):
        with pytest.raises(UserErrorException, match="would take all of"):
            source_of(command, None)
    assert source_of("train.py", str(tree / "home")).directory == str(tree / "home")


def test_a_script_in_the_chosen_folder_or_seen_from_here(tree: Path) -> None:
    assert source_of("deep.py", "lib").script == "deep.py"
    assert source_of("lib/deep.py", "lib").script == str(tree / "home/project/lib/deep.py")


@pytest.mark.parametrize(
    ("script", "chosen", "said"),
    [
        ("trian.py", None, "did you mean 'train.py'"),
        ("lib", None, "is a folder"),
        ("run.sh", None, 'wherry run --command "sh run.sh"'),
        ("nope.py", "lib", "there is no script 'nope.py'"),
    ],
)
def test_what_is_no_script(tree: Path, script: str, chosen: str | None, said: str) -> None:
    with pytest.raises(UserErrorException) as caught:
        source_of(script, chosen)
    assert said in str(caught.value)


def test_a_link_to_the_folder_is_the_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "link").symlink_to(tree / "home/project")
    assert source_of(str(tree / "link/train.py"), None).script is not None
    monkeypatch.setenv("HOME", str(tree / "link"))
    with pytest.raises(UserErrorException, match="would take all of"):
        source_of("train.py", None)


@pytest.mark.parametrize(
    ("name", "experiment"),
    [("churn", "churn"), ("my project (2)", "my-project-2"), ("数据", "default")],
)
def test_the_experiment_is_named_like_the_folder(
    tmp_path: Path, name: str, experiment: str
) -> None:
    assert experiment_of(str(tmp_path / name)) == experiment
