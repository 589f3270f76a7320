"""Odd names from end to end: captured, stored, unpacked, kept and fetched, or told and left out."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.homes import Home
from tests.planes import make_plane
from wherry import UserErrorException
from wherry.control import files
from wherry.control.submit import start_interactive
from wherry.core.errors import WherryError
from wherry.core.snapshots import check_path
from wherry.drivers.memory import MemoryDriver
from wherry.sdk.files import check_together, place_below

ODD_NAMES = [
    *("caf\u00e9", "cafe\u0301", "Case", "case", "con", "nul.txt", "a\nb", "tab\t", " ", "-rf"),
    *("\x1b[2J", "\u202egpj.exe", "\u200b", "🐍", "$HOME", "`id`", "a'b\"c", "%2e%2e", "%00", "~"),
    *("n" * 255, "é" * 127, "d/" * 40 + "deep", "...", "..a", "a..", "#", "?x=1", "a&b", "COM1:"),
    "end\n",
]

SCRIPT = """
import os, shutil
found = []
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.relpath(os.path.join(folder, name))
        if path.startswith("odd/"):
            os.makedirs(os.path.dirname("outputs/" + path), exist_ok=True)
            shutil.copyfile(path, "outputs/" + path)
os.symlink("/etc/passwd", "outputs/out")
os.symlink("odd", "outputs/again")
os.link("train.py", "outputs/hard")
os.mkfifo("outputs/fifo")
"""


def plant(folder: Path) -> dict[str, bytes]:
    """Files with odd names, and what must not be followed or waited for."""
    expected = {}
    for number, name in enumerate(ODD_NAMES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
        expected[name] = b"%d" % number
    (folder / "link").symlink_to("Case")
    (folder / "broken").symlink_to("nowhere")
    (folder / "round").symlink_to("round")
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        here = os.getcwd()
        os.chdir(folder)  # the address of a socket has at most 108 bytes
        unix.bind("socket")
        os.chdir(here)
    if os.getuid() == 0:
        os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    return expected


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_odd_names_go_there_and_back(home: Home) -> None:
    odd = home.source / "odd"
    expected = plant(odd)
    (home.source / "way_out").symlink_to("/etc/hostname")
    run = home.submit(SCRIPT)
    run.wait_for_completion(wait_post_processing=True)
    restored = home.folder / "restored"
    run.restore_snapshot(path=str(restored))
    assert content(restored / "odd") == expected
    assert os.readlink(restored / "odd" / "link") == "Case"
    fetched = home.folder / "fetched"
    run.download_files(prefix="outputs/", output_directory=str(fetched))
    kept = content(fetched / "outputs" / "odd")
    assert kept == {**expected, "link": expected["Case"]}
    assert content(fetched / "outputs" / "again") == kept
    assert not (fetched / "outputs" / "out").exists()
    assert (fetched / "outputs" / "hard").read_text() == SCRIPT


PARTS = st.sampled_from(
    ["a", "b", "..", ".", "", "\\", "C:", "\0", "\n", "é", "e\u0301", "A", "%2e", "x" * 256]
)
PATHS = st.lists(PARTS | st.text(max_size=4), max_size=6).map("/".join)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=st.lists(PATHS, max_size=5))
def test_what_the_server_keeps_can_be_fetched_below_any_folder(
    tmp_path: Path, names: list[str]
) -> None:
    kept = [name for name in names if _accepted(check_path, name)]
    for name in kept:
        place = os.path.normpath(place_below(str(tmp_path), name))
        assert place.startswith(f"{tmp_path}/")
    for name in set(names) - set(kept):
        assert not _accepted(lambda each: place_below(str(tmp_path), each), name)


def _accepted(check: Any, name: str) -> bool:
    try:
        check(name)
    except UserErrorException:
        return False
    return True


def test_a_name_that_the_server_refuses_changes_nothing(tmp_path: Path) -> None:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    run = start_interactive(plane, "w", {"experiment": "e"}, "me")
    for name in ("../x", "/x", "a/../x", "a//b", "a/", "", ".", "a\0b", "\ud800", "n" * 256, "C:x"):
        with pytest.raises(WherryError):
            files.put(plane, run.id, name, [b"x"])
    assert files.every(plane, run.id) == []
    plane.close()


def test_a_file_and_a_folder_of_one_name_are_told() -> None:
    with pytest.raises(UserErrorException, match="file 'a/b' and a folder 'a/b'"):
        check_together(["a/b", "a/b/c", "d"])
    check_together(["a", "ab/c", "A/b"])
