"""A folder whose own times tell that no name in it has come or gone is not read again."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wherry.sdk import hash_cache, mounts, scout, scouting, walk
from wherry.sdk.snapshot import Snapshot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux names file systems")

LONG_AGO = time.time() - 3600
Change = Callable[[Path], object]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing but files in it, all remembered, and others."""
    root = tmp_path / "tree"
    for name in ("train.py", "leaf/one.py", "leaf/two.py", "mixed/three.py", "mixed/skipped.log"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (LONG_AGO, LONG_AGO))
    (root / ".gitignore").write_text("*.log\n")
    time.sleep(0.15)  # what has just changed would not be remembered
    monkeypatch.setattr(walk, "trusted_device", lambda root: os.stat(root).st_dev)
    Snapshot.capture(root, cache_dir=tmp_path / "cache")
    return root


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The remembered names of each folder that is read."""
    found: list[str] = []

    def unknown(entries: Any, known: Any) -> Any:
        found.append(" ".join(known))
        return scout.unknown(entries, known)

    monkeypatch.setattr(walk, "unknown", unknown)
    return found


def capture(tree: Path, cache: str = "cache") -> Snapshot:
    return Snapshot.capture(tree, cache_dir=tree.parent / cache)


def test_a_folder_as_it_was_is_not_read(tree: Path, read: list[str]) -> None:
    assert [entry.path for entry in capture(tree).files] == [
        ".gitignore",
        "leaf/one.py",
        "leaf/two.py",
        "mixed/three.py",
        "train.py",
    ]
    assert sorted(read) == [".gitignore train.py", "three.py"]


def as_old(path: Path) -> None:
    os.utime(path, (LONG_AGO, LONG_AGO))


def replace(path: Path) -> None:
    """By another of the same size and time."""
    other = path.parent.parent / "other"
    other.write_text("".join(reversed(path.read_text())))
    as_old(other)
    times = path.parent.stat()
    other.rename(path)
    os.utime(path.parent, ns=(times.st_atime_ns, times.st_mtime_ns))


def rewrite(path: Path) -> None:
    """In its place, of the same size and time."""
    path.write_text("".join(reversed(path.read_text())))
    as_old(path)


def make_folder_of(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_text("x")


def make_link_of(path: Path) -> None:
    path.unlink()
    path.symlink_to("one.py")


def replace_folder(path: Path) -> None:
    shutil.copytree(path, path.parent / "copy")
    shutil.rmtree(path)
    (path.parent / "copy").rename(path)
    (path / "two.py").write_text("2")


CHANGES: dict[str, Change] = {
    "a file is changed": lambda root: (root / "leaf/one.py").write_text("1"),
    "a file is rewritten": lambda root: rewrite(root / "leaf/one.py"),
    "a file is replaced": lambda root: replace(root / "leaf/one.py"),
    "a file is new": lambda root: (root / "leaf/three.py").write_text("3"),
    "a file is gone": lambda root: (root / "leaf/two.py").unlink(),
    "a file has another name": lambda root: (root / "leaf/two.py").rename(root / "leaf/x.py"),
    "two files change places": lambda root: [
        (root / "leaf/one.py").rename(root / "leaf/x"),
        (root / "leaf/two.py").rename(root / "leaf/one.py"),
        (root / "leaf/x").rename(root / "leaf/two.py"),
    ],
    "a file is now a folder": lambda root: make_folder_of(root / "leaf/two.py"),
    "a file is now a link": lambda root: make_link_of(root / "leaf/two.py"),
    "it can be executed": lambda root: (root / "leaf/one.py").chmod(0o755),
    "a folder is new": lambda root: make_folder_of(root / "leaf/one.py"),
    "there are rules": lambda root: (root / "leaf/.gitignore").write_text("one.py\n"),
    "the rules above change": lambda root: (root / ".gitignore").write_text("two.py\n"),
    "it is a virtual environment": lambda root: (root / "leaf/pyvenv.cfg").write_text(""),
    "another folder has its name": lambda root: replace_folder(root / "leaf"),
    "it is gone": lambda root: shutil.rmtree(root / "leaf"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("with_scout", [False, True])
def test_a_change_is_seen(
    tree: Path, change: Change, with_scout: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if with_scout:
        monkeypatch.setattr(hash_cache, "WORTH_IT", 1)
        monkeypatch.setattr(scouting, "_can_start", lambda: True)
    change(tree)
    found, fresh = capture(tree), capture(tree, "other cache")
    assert found.files == fresh.files
    assert sorted(found.notices) == sorted(fresh.notices)


def test_other_file_systems_are_not_trusted(
    tree: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "trusted_device", lambda root: None)
    for _ in range(2):
        read.clear()
        capture(tree, "other cache")
    assert "one.py two.py" in read


def test_what_proc_lists_is_trusted_by_its_kind() -> None:
    assert mounts.trusted_device("/proc") is None
    assert mounts.trusted_device("/nowhere/at/all") is None


def test_a_folder_just_changed_gets_no_mark(tmp_path: Path) -> None:
    found = tmp_path.stat()
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    assert hash_cache.mark_of(found, newest + 1000) == scout.NO_MARK
    assert hash_cache.mark_of(found, newest + 10**10) == hash(scout.stat_key(found))
