from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from wherry.session import small_file


def test_a_full_disk_is_no_trouble_where_nothing_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    small_file.write(str(path), "one ü")
    assert (path.read_text("utf-8"), path.stat().st_mode & 0o777) == ("one ü", 0o600)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    small_file.write(str(path), "one ü")
    with pytest.raises(OSError, match="No space left"):
        small_file.write(str(path), "two")
    assert path.read_text("utf-8") == "one ü"
    monkeypatch.undo()
    small_file.write(str(path), "two")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
