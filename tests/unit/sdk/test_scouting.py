"""A scout looks where the walk then need not; what is captured is the same without it."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wherry.core.errors import SnapshotException
from wherry.sdk import hash_cache, scout, scouting, walk
from wherry.sdk.snapshot import Snapshot

LONG_AGO = time.time() - 3600
Change = Callable[[Path], object]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("train.py", "a/one.py", "a/two.py", "a/deep/x y.py", "b/é.txt", "b/skipped.log"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / ".gitignore").write_text("*.log\n")
    (root / "b" / "link").symlink_to("../a/one.py")
    settle(root)
    return root


def settle(root: Path) -> None:
    """Files just written would not be remembered: their change time is waited for."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (LONG_AGO, LONG_AGO))
    time.sleep(0.15)


@pytest.fixture
def scouted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every folder that the walk itself looked at, with a scout that is always done before it."""
    monkeypatch.setattr(hash_cache, "WORTH_IT", 1)
    monkeypatch.setattr(scouting, "_can_start", lambda: True)
    start = scouting.Scouting._start
    looked: list[str] = []

    def start_and_wait(self: scouting.Scouting) -> None:
        start(self)
        os.set_blocking(self._pipe, True)

    def look(entries: Any, known: Any) -> Any:
        looked.append(" ".join(sorted(known)))
        return scout.unknown(entries, known)

    monkeypatch.setattr(scouting.Scouting, "_start", start_and_wait)
    monkeypatch.setattr(walk, "unknown", look)
    return looked


def test_what_is_as_it_was_is_not_looked_at_again(tree: Path, scouted: list[str]) -> None:
    cache = tree.parent / "cache"
    first = Snapshot.capture(tree, cache_dir=cache)
    scouted.clear()
    second = Snapshot.capture(tree, cache_dir=cache)
    assert scouted == []
    assert second.id == first.id
    assert [entry.path for entry in second.files] == [
        ".gitignore",
        "a/deep/x y.py",
        "a/one.py",
        "a/two.py",
        "b/link",
        "b/é.txt",
        "train.py",
    ]


def make_folder_of(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_text("x")


def move_behind_a_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


CHANGES: dict[str, Change] = {
    "a file is changed": lambda root: (root / "a/one.py").write_text("1"),
    "a file is new": lambda root: (root / "a/three.py").write_text("3"),
    "a file is gone": lambda root: (root / "a/two.py").unlink(),
    "a file is replaced by a folder": lambda root: make_folder_of(root / "a/two.py"),
    "a folder is gone": lambda root: shutil.rmtree(root / "a/deep"),
    "a folder is new": lambda root: shutil.copytree(root / "a", root / "c"),
    "a folder is now a link": lambda root: move_behind_a_link(root / "a"),
    "other files are left out": lambda root: (root / ".gitignore").write_text("*.py\n!train.py\n"),
    "a folder has rules of its own": lambda root: (root / "a/.gitignore").write_text("one.py\n"),
    "what was left out is named": lambda root: (root / "b/.gitignore").write_text("!*.log\n"),
    "it can be executed": lambda root: (root / "a/one.py").chmod(0o755),
    "there is a virtual environment": lambda root: (root / "b/pyvenv.cfg").write_text(""),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_change_is_seen(tree: Path, scouted: list[str], change: Change) -> None:
    cache = tree.parent / "cache"
    Snapshot.capture(tree, cache_dir=cache)
    change(tree)
    found = Snapshot.capture(tree, cache_dir=cache)
    fresh = Snapshot.capture(tree, cache_dir=tree.parent / "other cache")
    assert found.files == fresh.files
    assert sorted(found.notices) == sorted(fresh.notices)


def test_a_scout_that_cannot_start_is_not_missed(
    tree: Path, scouted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tree.parent / "cache"
    first = Snapshot.capture(tree, cache_dir=cache)
    monkeypatch.setattr(sys, "executable", str(tree / "no python"))
    scouted.clear()
    assert Snapshot.capture(tree, cache_dir=cache).id == first.id
    assert scouted


def test_another_memory_than_the_walk_has_is_not_used(tree: Path, scouted: list[str]) -> None:
    cache = tree.parent / "cache"
    Snapshot.capture(tree, cache_dir=cache)
    (file,) = (cache / "snapshots").iterdir()
    start = str(hash_cache._HEAD_BYTES)
    known = [str(each) for each in scout.identity(file.stat())]
    command = [sys.executable, "-I", "-S", scout.__file__, str(file), start, str(tree)]
    assert subprocess.check_output([*command, *known])
    known[1] += "0"
    assert subprocess.check_output([*command, *known]) == b""
    assert subprocess.run([*command, *known], check=True, env={}).returncode == 0


def test_no_scout_is_left(tree: Path, scouted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tree.parent / "cache"
    started: list[int] = []
    spawn = os.posix_spawn

    def noted(*arguments: Any, **options: Any) -> int:
        started.append(spawn(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(os, "posix_spawn", noted)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        Snapshot.capture(tree, cache_dir=cache)
    assert len(started) == 2  # the first capture remembers nothing
    for pid in started:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, 0)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_afterwards_as_before(tree: Path, enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        Snapshot.capture(tree, cache_dir=tree.parent / "cache")
        assert gc.isenabled() is enabled
        with pytest.raises(SnapshotException):
            Snapshot.capture(tree / "train.py")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
