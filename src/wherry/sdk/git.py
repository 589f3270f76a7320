"""What git knows of a source directory, read from its files; only ``dirty`` needs git itself."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional, Sequence, Tuple

_PATIENCE_S = 0.05
# Of about 2,500 files. Below that, git is done before it could be in the way.
_LARGE_INDEX = 256_000
_FEW = 20
_MLFLOW_NAMES = {"repository_uri": "repoURL", "branch": "branch", "commit": "commit"}


class GitFacts:
    """Asks git while something else is done, and waits for its answer no longer than it is worth.

    In a large work tree git would compete with a capture for the same folders. There it is asked
    once the capture is done, and first about the files that were ``read`` anew: if one of them
    differs from the last commit, nothing else matters.

    >>> with GitFacts("src") as facts:
    ...     snapshot = Snapshot.capture("src")
    ...     facts.ask(snapshot.read)
    ...     facts.properties()["azureml.git.branch"]
    'main'
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        root = _work_tree(os.path.realpath(directory))
        self._folder = _git_folder(root) if root else None
        self._question: Optional[_Question] = None
        if self._folder is not None and _size(self._folder, "index") < _LARGE_INDEX:
            self._question = _Question(directory)

    def ask(self, read: Sequence[str] = ()) -> None:
        """Begin to find out whether the work tree is dirty, if that has not begun."""
        if self._folder is not None and self._question is None:
            self._question = _Question(self._directory, read if len(read) <= _FEW else ())

    def properties(self) -> Dict[str, str]:
        """Azure ML's and MLflow's names; empty outside a work tree."""
        if self._folder is None:
            return {}
        branch, commit = _head(self._folder)
        facts = {
            "repository_uri": _remote(self._folder),
            "branch": branch,
            "commit": commit,
            "dirty": self._dirty(),
        }
        found = {f"azureml.git.{name}": value for name, value in facts.items() if value}
        for name, theirs in _MLFLOW_NAMES.items():
            if facts[name]:
                found[f"mlflow.source.git.{theirs}"] = facts[name]
        return found

    def __enter__(self) -> GitFacts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._question is not None:
            self._question.drop()

    def _dirty(self) -> str:
        self.ask()
        assert self._question is not None
        answer = self._question.answer()
        if answer == "False" and self._question.paths:
            self._question = _Question(self._directory)
            answer = self._question.answer()
        return answer


class _Question:
    """Whether something below the directory, or one of these paths, is not as it was committed."""

    def __init__(self, directory: str, paths: Sequence[str] = ()) -> None:
        self.paths = paths
        self._answer: Optional[str] = None
        self._started = time.monotonic()
        self._git = _start_status(directory, paths)

    def answer(self) -> str:
        """``True``, ``False``, or empty if git does not say in time."""
        if self._answer is None:
            self._answer = self._wait()
        return self._answer

    def drop(self) -> None:
        if self._git is not None and self._git.returncode is None:
            self._git.kill()
            self._git.communicate()

    def _wait(self) -> str:
        if self._git is None:
            return ""
        import subprocess

        left = _PATIENCE_S - (time.monotonic() - self._started)
        try:
            output, _ = self._git.communicate(timeout=max(0.005, left))
        except subprocess.TimeoutExpired:
            return ""
        return "" if self._git.returncode else str(bool(output.strip()))


def _start_status(directory: str, paths: Sequence[str]) -> Any:
    import subprocess

    options = ["--no-optional-locks", "--literal-pathspecs"]
    if paths:
        options += ["-c", "core.preloadIndex=false"]  # threads that would look at everything
    try:
        return subprocess.Popen(
            ["git", *options, "status", "--porcelain", "--", *(paths or ["."])],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _work_tree(directory: str) -> Optional[str]:
    while True:
        if os.path.exists(os.path.join(directory, ".git")):
            return directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _git_folder(root: str) -> Optional[str]:
    """``.git`` is a folder, or in a linked work tree a file that names one."""
    path = os.path.join(root, ".git")
    if os.path.isdir(path):
        return path
    text = _read(path)
    if text.startswith("gitdir:"):
        return os.path.join(root, text[len("gitdir:") :].strip())
    return None


def _head(folder: str) -> Tuple[str, str]:
    head = _read(os.path.join(folder, "HEAD"))
    if not head.startswith("ref:"):
        return "", head
    name = head[len("ref:") :].strip()
    branch = name[len("refs/heads/") :] if name.startswith("refs/heads/") else name
    return branch, _commit(folder, name)


def _commit(folder: str, name: str) -> str:
    for place in (folder, _common(folder)):
        commit = _read(os.path.join(place, *name.split("/")))
        if commit:
            return commit
    for line in _read(os.path.join(_common(folder), "packed-refs")).splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return ""


def _remote(folder: str) -> str:
    """The address of ``origin``, without the password that it may contain."""
    inside = False
    for text in _read(os.path.join(_common(folder), "config")).splitlines():
        line = text.strip()
        if line.startswith("["):
            inside = line.replace("'", '"') == '[remote "origin"]'
        elif inside and line.partition("=")[0].strip() == "url":
            return _without_secret(line.partition("=")[2].strip())
    return ""


def _without_secret(url: str) -> str:
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    host, slash, path = rest.partition("/")
    return scheme + found + host.rpartition("@")[2] + slash + path


def _common(folder: str) -> str:
    shared = _read(os.path.join(folder, "commondir"))
    return os.path.join(folder, shared) if shared else folder


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _size(folder: str, name: str) -> int:
    try:
        return os.stat(os.path.join(folder, name)).st_size
    except OSError:
        return 0
