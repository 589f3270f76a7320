from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from wherry.sdk import config_file
from wherry.session import home as module
from wherry.session.contract import read
from wherry.session.home import Home, HomeError, place

_CONTRACT = read(json.dumps({"jupyter_token": "t", "workspace": "w", "instance": "nb"}))


def test_it_is_private_and_names_the_workspace(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    home.make(_CONTRACT)
    assert stat.S_IMODE(os.stat(home.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(home.private).st_mode) == 0o700
    found = config_file.find(str(tmp_path / "home"))
    assert found is not None
    assert config_file.read(found).workspace_name == "w"
    private = home.private
    home.leave()
    assert not os.path.exists(private)


def test_a_configuration_of_the_persons_own_stays(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"workspace_name": "mine"}')
    home = Home(str(tmp_path))
    home.make(_CONTRACT)
    home.leave()
    assert not (tmp_path / ".azureml").exists()


def test_what_a_killed_session_left_is_removed(tmp_path: Path) -> None:
    first, second = Home(str(tmp_path)), Home(str(tmp_path))
    first.make(_CONTRACT)
    assert first._lock is not None
    first._lock.close()  # as a kill does
    second.make(_CONTRACT)
    assert not os.path.exists(first.private)
    second.leave()


def test_one_session_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    first = Home(str(tmp_path))
    first.make(_CONTRACT)
    with pytest.raises(HomeError, match="another session still uses the home"):
        Home(str(tmp_path)).make(_CONTRACT)
    first.leave()


def test_a_home_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match=r"file/home cannot be used: Not a directory"):
        Home(str(tmp_path / "file" / "home")).make(_CONTRACT)


def test_without_a_word_it_is_below_the_persons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert place(_CONTRACT) == "/home/me/wherry-instances/nb"
    assert place(_CONTRACT._replace(home="~/there")) == "/home/me/there"
