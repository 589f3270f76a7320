from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from wherry.api import __main__ as main
from wherry.core.errors import ServerUnavailableError


def test_a_home_is_claimed_once_a_killed_server_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = (tmp_path / "server.lock").open("w")
    fcntl.flock(dying, fcntl.LOCK_EX)
    monkeypatch.setattr("time.sleep", lambda _seconds: dying.close())
    with (tmp_path / "server.lock").open("w") as lock:
        main._claim(lock, tmp_path)
        assert dying.closed


def test_a_home_that_another_server_has_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "_DYING_S", 0.0)
    with (
        (tmp_path / "server.lock").open("w") as other,
        (tmp_path / "server.lock").open("w") as lock,
    ):
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ServerUnavailableError, match="another server looks after"):
            main._claim(lock, tmp_path)
