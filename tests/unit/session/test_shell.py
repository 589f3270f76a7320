from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from wherry.session import shell
from wherry.session.home import Home

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


def typed(home: Home, session: str, *lines: str, cwd: str = "") -> list[str]:
    """What a shell of a terminal prints for these lines."""
    env = {**os.environ, "HOME": home.path, "WHERRY_ATTEMPT_ID": session}
    done = subprocess.run(
        ["bash", "--rcfile", home.rcfile, "-i"],
        input="\n".join([*lines, ""]),
        cwd=cwd or home.path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    return done.stdout.splitlines()


def test_programs_of_the_instance_come_first(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    shell.write(home, ["/venv/bin", "/below it/bin"])
    (tmp_path / ".bashrc").write_text("PATH=/theirs:$PATH; COLOUR=red\n")
    (line,) = typed(home, "one", "echo $COLOUR $PATH")
    assert line.startswith("red /venv/bin:/below it/bin:/theirs:")


def test_a_terminal_begins_where_the_one_before_the_stop_was(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    shell.write(home, [])
    work = tmp_path / "of mine"
    work.mkdir()
    assert typed(home, "one", f"cd '{work}'", "pwd") == [str(work)]
    assert typed(home, "one", "pwd") == [str(tmp_path)]  # a new one, while it is running
    typed(home, "one", f"cd '{work}'")
    assert typed(home, "two", "pwd") == [str(work)]
    assert typed(home, "three", "pwd", cwd="/") == ["/"]  # opened in a folder of choice
    typed(home, "four", f"cd '{work}'")
    work.rmdir()
    assert typed(home, "five", "pwd") == [str(tmp_path)]
