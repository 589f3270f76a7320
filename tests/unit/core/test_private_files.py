"""Files for their owner alone: their modes, whatever the umask, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry.core import private_files
from wherry.core.errors import AuthenticationException, UserErrorException


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct, autouse=True)
def _umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    del tmp_path  # made before the umask changes
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    private_files.make_home(str(home))
    private_files.make_secret(str(home / "token"), "one")
    private_files.make_secret(str(home / "token"), "two")
    os.close(private_files.open_private(str(home / "log"), os.O_WRONLY))
    private_files.make_folder(str(home / "blobs"))
    modes = {path.name: mode(path) for path in (home, *home.iterdir())}
    assert modes == {"home": 0o700, "token": 0o600, "log": 0o600, "blobs": 0o700}
    assert private_files.read_secret(str(home / "token")) == "one"


def test_what_was_wider_becomes_narrow(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    (tmp_path / "log").chmod(0o666)
    os.close(private_files.open_private(str(tmp_path / "log"), os.O_WRONLY))
    assert mode(tmp_path / "log") == 0o600


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o620, 0o644, 0o666, 0o601])
def test_a_secret_that_others_can_touch_is_refused(tmp_path: Path, wide: int) -> None:
    path = tmp_path / "a token"
    private_files.make_secret(str(path), "geheim")
    path.chmod(wide)
    with pytest.raises(AuthenticationException, match="can be read by others") as caught:
        private_files.read_secret(str(path))
    assert caught.value.hint == f"chmod 600 '{path}'"
    assert "geheim" not in str(caught.value)


def test_a_secret_is_a_file_itself(tmp_path: Path) -> None:
    private_files.make_secret(str(tmp_path / "real"), "secret")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(0o700)
    for name in ("link", "dangling", "fifo", "folder"):
        with pytest.raises(AuthenticationException, match="cannot be used"):
            private_files.read_secret(str(tmp_path / name))
    assert private_files.read_secret(str(tmp_path / "none")) is None
    with pytest.raises(OSError, match="symbolic links"):
        private_files.open_private(str(tmp_path / "link"), os.O_WRONLY)


def test_a_home_is_not_written_by_others(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    private_files.make_home(str(home))
    home.chmod(0o777)
    with pytest.raises(UserErrorException, match="others can write") as caught:
        private_files.make_home(str(home))
    assert caught.value.hint == f"chmod go-w '{home}'"
    home.chmod(0o755)
    private_files.make_home(str(home))
    assert mode(home) == 0o755


def test_a_group_may_write_if_it_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_files.make_home(str(tmp_path / "home"))
    (tmp_path / "home").chmod(0o770)
    monkeypatch.setattr(private_files, "_own_group", lambda _: True)
    private_files.check_home(str(tmp_path / "home"))
    monkeypatch.setattr(private_files, "_own_group", lambda _: False)
    with pytest.raises(UserErrorException, match="others can write"):
        private_files.check_home(str(tmp_path / "home"))


def test_a_file_in_the_place_of_a_home_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    (tmp_path / "home").chmod(0o644)
    with pytest.raises(FileExistsError):
        private_files.make_home(str(tmp_path / "home"))
    assert mode(tmp_path / "home") == 0o644


def test_a_settings_file_with_a_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("token = geheim", "[wherry]\ndatabase_url: postgresql://u:geheim@h/x"):
        path.write_text(text)
        path.chmod(0o600)
        private_files.check_settings(str(path), text)
        path.chmod(0o640)
        with pytest.raises(AuthenticationException, match="can be read by others") as caught:
            private_files.check_settings(str(path), text)
        assert "geheim" not in str(caught.value)
    path.chmod(0o644)
    private_files.check_settings(str(path), "workspace = w\ndatabase_url = postgresql://u@h/x")
    path.chmod(0o666)
    with pytest.raises(AuthenticationException, match="others can write"):
        private_files.check_settings(str(path), "workspace = w")
