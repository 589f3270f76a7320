"""A key that is named by its path is a file, or it is said that it is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wherry.core.errors import TargetUnavailableError
from wherry.drivers.ssh_host import Host
from wherry.drivers.ssh_keys import private_key


def test_nothing_is_waited_for_and_nothing_read_without_an_end(tmp_path: Path) -> None:
    """All lines to machines live in the thread that would wait."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (1 << 20))
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "large", Path("/dev/zero")):
        with pytest.raises(TargetUnavailableError) as error:
            private_key(Host("h", private_key=str(path)))
        assert str(path) in error.value.message
        assert error.value.fields["cause"] == "key"
