from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry.drivers import short_folder
from wherry.drivers.short_folder import ShortFolder

_LEFT = """\
import os, tempfile
tempfile.tempdir = {base!r}
from wherry.drivers.short_folder import ShortFolder
print(ShortFolder().path, flush=True)
os._exit(0)
"""


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="w") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def left(base: Path) -> Path:
    """By a process that is gone."""
    code = _LEFT.format(base=str(base))
    return Path(subprocess.check_output([sys.executable, "-c", code], text=True).strip())


def test_what_a_killed_server_left_is_removed_and_nothing_that_is_held(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = left(base), base / "wherry-sockets-link"
    (folder / "0").touch()
    other.symlink_to(Path.home())
    first = ShortFolder()
    assert folder.exists()  # it may be of one that has just begun
    monkeypatch.setattr(short_folder, "_NEW_S", -1.0)
    second = ShortFolder()
    assert set(base.iterdir()) == {Path(first.path), Path(second.path), other}
    assert Path(first.path).stat().st_mode & 0o777 == 0o700
    for each in (first, second):
        each.remove()
    assert list(base.iterdir()) == [other]


def test_its_path_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"/{'x' * 60}")
    folder = ShortFolder()
    assert len(folder.path) < 80
    folder.remove()
