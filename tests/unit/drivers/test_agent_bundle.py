"""The agent travels with all that it imports, and with nothing of a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interpreters import find_python
from wherry.drivers import agent_bundle, frames


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
def test_it_starts_alone_and_answers(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    done = subprocess.run(
        agent_bundle.command(python),
        shell=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        input=_archive() + frames.pack({"id": 7, "do": "check", "root": str(tmp_path / "r")}),
        capture_output=True,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    said, _, rest = done.stdout.lstrip(b"\n").partition(b"\n")
    assert json.loads(said.partition(b" ")[2]) == {"have": False, "platform": sys.platform}
    hello, rest = _frame(rest)
    assert (hello["protocol"], hello["version"][: len(version)]) == (frames.PROTOCOL, version)
    answer, _ = _frame(rest)
    assert (answer["id"], len(answer["nodes"])) == (7, 1)


def test_nothing_of_a_server_travels() -> None:
    names = {name.split("/")[1] for name in agent_bundle._sources() if name.count("/") > 1}
    assert names == {"containers", "core", "drivers", "runner"}
    assert "wherry/drivers/local.py" in agent_bundle._sources()
    assert "wherry/drivers/ssh.py" not in agent_bundle._sources()
    assert len(agent_bundle.archive()) < 200_000


def _archive() -> bytes:
    archive = agent_bundle.archive()
    return b"%d\n" % len(archive) + archive


def _frame(data: bytes) -> tuple[dict[str, Any], bytes]:
    text, blob = frames.sizes(data[: frames.HEAD_SIZE])
    end = frames.HEAD_SIZE + text
    return frames.parse(data[frames.HEAD_SIZE : end]), data[end + blob :]


def started(home: Path) -> bytes:
    return subprocess.run(
        agent_bundle.command(sys.executable),
        shell=True,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        input=_archive(),
        capture_output=True,
    ).stdout


def test_others_are_kept_out_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".wherry-node"
    folder.mkdir()
    folder.chmod(0o777)
    assert b'"protocol"' in started(tmp_path)
    modes = [path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))]
    assert len(modes) > 10
    assert not any(modes)


@pytest.mark.parametrize("planted", ["", "/agents", f"/agents/{agent_bundle.digest()}"])
def test_nothing_is_run_that_another_user_has_put_there(tmp_path: Path, planted: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give files to others")
    library = tmp_path / ".wherry-node" / "agents" / agent_bundle.digest()
    (library / "wherry" / "drivers").mkdir(parents=True)
    (library / "wherry" / "drivers" / "agent.py").write_text("print('planted')\n")
    os.chown(f"{tmp_path}/.wherry-node{planted}", 54321, 54321)
    said = started(tmp_path)
    assert b"it belongs to another user" in said
    assert b"planted" not in said
