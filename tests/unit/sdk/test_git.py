from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from wherry.sdk import git as git_module
from wherry.sdk.git import GitFacts

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=trunk"]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*GIT, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def facts(folder: Path) -> dict[str, str]:
    with GitFacts(str(folder)) as found:
        return found.properties()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_module, "_PATIENCE_S", 30.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("a")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_clean_work_tree(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://me:secret@example.com/x/y.git")
    assert facts(repository / "src") == {
        "azureml.git.repository_uri": "https://example.com/x/y.git",
        "azureml.git.branch": "trunk",
        "azureml.git.commit": git(repository, "rev-parse", "HEAD"),
        "azureml.git.dirty": "False",
        "mlflow.source.git.repoURL": "https://example.com/x/y.git",
        "mlflow.source.git.branch": "trunk",
        "mlflow.source.git.commit": git(repository, "rev-parse", "HEAD"),
    }


@pytest.mark.parametrize("change", ["src/a.py", "src/new.py"])
def test_a_changed_work_tree(repository: Path, change: str) -> None:
    (repository / change).write_text("changed")
    assert facts(repository / "src")["azureml.git.dirty"] == "True"


def test_packed_branches(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    assert facts(repository)["azureml.git.commit"] == commit


def test_a_linked_work_tree(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "topic/one", str(tmp_path / "linked"))
    found = facts(tmp_path / "linked" / "src")
    assert found["azureml.git.branch"] == "topic/one"
    assert found["azureml.git.commit"] == git(repository, "rev-parse", "HEAD")


def test_a_commit_without_a_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    found = facts(repository)
    assert "azureml.git.branch" not in found
    assert found["azureml.git.commit"] == git(repository, "rev-parse", "HEAD")


def test_no_work_tree(tmp_path: Path) -> None:
    assert facts(tmp_path) == {}


def test_an_empty_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    found = facts(tmp_path)
    assert found["azureml.git.branch"] == "trunk"
    assert "azureml.git.commit" not in found


def test_a_slow_answer_is_not_waited_for(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(git_module, "_PATIENCE_S", 0.02)
    found = facts(repository)
    assert found["azureml.git.branch"] == "trunk"
    assert "azureml.git.dirty" not in found


def test_no_git_program_is_no_obstacle(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert facts(repository)["azureml.git.branch"] == "trunk"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The paths that git is asked about, with a work tree that counts as large."""
    monkeypatch.setattr(git_module, "_LARGE_INDEX", 0)
    start, found = git_module._start_status, []

    def noted(directory: str, paths: list[str]) -> object:
        found.append(list(paths))
        return start(directory, paths)

    monkeypatch.setattr(git_module, "_start_status", noted)
    return found


def dirty(folder: Path, *read: str) -> str:
    with GitFacts(str(folder)) as found:
        found.ask(read)
        return found.properties()["azureml.git.dirty"]


def test_in_a_large_work_tree_what_was_read_is_asked_about_first(
    repository: Path, asked: list[list[str]]
) -> None:
    (repository / "src" / "a.py").write_text("changed")
    assert dirty(repository / "src", "a.py") == "True"
    assert asked == [["a.py"]]


def test_a_pattern_is_asked_about_as_a_name(repository: Path, asked: list[list[str]]) -> None:
    (repository / "src" / "a.py").write_text("changed")
    (repository / "*.py").write_text("*.py\n")
    (repository / ".gitignore").write_text("/*.py\n.gitignore\n")
    git(repository, "commit", "-qam", "second")
    assert dirty(repository, "*.py") == "False"
    assert asked == [["*.py"], []]


def test_only_all_of_it_can_be_clean(repository: Path, asked: list[list[str]]) -> None:
    assert dirty(repository / "src", "a.py") == "False"
    assert asked == [["a.py"], []]
    (repository / "src" / "other.py").write_text("new")
    assert dirty(repository / "src", "a.py") == "True"


def test_many_files_are_not_asked_about_one_by_one(
    repository: Path, asked: list[list[str]]
) -> None:
    assert dirty(repository, *[f"{number}.py" for number in range(30)]) == "False"
    assert dirty(repository) == "False"
    assert asked == [[], []]


def test_a_small_work_tree_is_asked_about_at_once(
    repository: Path, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "_LARGE_INDEX", 1_000_000)
    assert dirty(repository, "src/a.py") == "False"
    assert asked == [[]]
