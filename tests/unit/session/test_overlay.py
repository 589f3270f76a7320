from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wherry.session.overlay import Overlay, OverlayError

_SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def below(folder: Path, **modules: str) -> str:
    """An environment with these modules; its interpreter."""
    words = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(words, check=True)
    for name, text in modules.items():
        (folder / _SITE / f"{name}.py").write_text(text)
    return str(folder / "bin" / "python")


def said_by(overlay: Overlay, code: str) -> str:
    return subprocess.check_output([overlay.python, "-c", code], text=True).strip()


def test_what_lies_over_another_is_seen_first(tmp_path: Path) -> None:
    python = below(tmp_path / "below", ours="x = 1", both="x = 'below'")
    (tmp_path / "below" / _SITE / "more.pth").write_text("import sys; sys.more = True\n")
    overlay = Overlay(str(tmp_path / "over"))
    said: list[str] = []
    assert overlay.lay(python, said.append).prefix == str(tmp_path / "below")
    (tmp_path / "over" / _SITE / "both.py").write_text("x = 'over'")
    code = "import sys, ours, both; print(ours.x, both.x, sys.more, sys.prefix)"
    assert said_by(overlay, code) == f"1 over True {tmp_path / 'over'}"
    assert said == []


def test_an_environment_that_was_made_again_elsewhere_keeps_what_was_installed(
    tmp_path: Path,
) -> None:
    overlay = Overlay(str(tmp_path / "over"))
    overlay.lay(below(tmp_path / "first", ours="x = 1"), print)
    (tmp_path / "over" / _SITE / "mine.py").write_text("x = 'mine'")
    link = tmp_path / "over" / "bin" / "python"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")  # the Python that it was made with is gone
    overlay.lay(below(tmp_path / "second", ours="x = 2"), print)
    assert said_by(overlay, "import ours, mine; print(ours.x, mine.x)") == "2 mine"


def test_nothing_is_made_again_where_all_is_well(tmp_path: Path) -> None:
    python = below(tmp_path / "below")
    overlay = Overlay(str(tmp_path / "over"))
    overlay.lay(python, print)
    before = os.lstat(overlay.python).st_mtime_ns
    overlay.lay(python, print)
    assert os.lstat(overlay.python).st_mtime_ns == before


def test_packages_of_another_python_are_mentioned(tmp_path: Path) -> None:
    overlay = Overlay(str(tmp_path / "over"))
    old = tmp_path / "over" / "lib" / "python3.6" / "site-packages" / "toolz-1.0.dist-info"
    old.mkdir(parents=True)
    said: list[str] = []
    overlay.lay(below(tmp_path / "below"), said.append)
    assert len(said) == 1
    assert said[0].startswith("packages that were installed for Python 3.6 are not seen by Python")
    assert old.exists()


def test_a_command_of_ours_gives_way_to_one_that_was_installed(tmp_path: Path) -> None:
    overlay = Overlay(str(tmp_path / "over"))
    overlay.lay(below(tmp_path / "below", tool="print('ours')"), print)
    overlay.add_command("tool", "tool")
    path = tmp_path / "over" / "bin" / "tool"
    assert subprocess.check_output([path], text=True) == "ours\n"
    path.write_text("theirs")
    overlay.add_command("tool", "tool")
    assert path.read_text() == "theirs"


def test_a_command_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    overlay = Overlay(str(tmp_path / "over"))
    overlay.lay(below(tmp_path / "below", tool="import random, sys; print(sys.argv[1:])"), print)
    overlay.add_command("tool", "tool")
    (tmp_path / "random.py").write_text("raise RuntimeError('a file of my own')")
    words = [str(tmp_path / "over" / "bin" / "tool"), "a b", "'"]
    assert subprocess.check_output(words, cwd=tmp_path, text=True) == """['a b', "'"]\n"""


def test_an_interpreter_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(OverlayError, match="the interpreter /nowhere does not answer"):
        Overlay(str(tmp_path / "over")).lay("/nowhere", print)
    (tmp_path / "over").write_text("a file in the way")
    with pytest.raises(OverlayError, match="cannot be made in"):
        Overlay(str(tmp_path / "over")).lay(sys.executable, print)
