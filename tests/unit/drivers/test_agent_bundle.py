"""The agent travels with all that it imports, and with nothing of a server."""

from __future__ import annotations

import json
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
