"""A real server, treated badly: it goes on answering."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.homes import Home, wait_until
from wherry import Experiment, Workspace
from wherry.sdk.server import HomeServer

UPLOADS = 60


def test_slow_uploads_keep_nobody_waiting(home: Home) -> None:
    """More of them than the server has threads; half are large, all stay unfinished."""
    run = Experiment(Workspace.create("w", exist_ok=True), "e").start_logging()
    address = HomeServer(str(home.home)).find()
    assert address is not None
    host, port = address.url.removeprefix("http://").split(":")
    token = (home.home / "token").read_text().strip()
    sockets = []
    for n in range(UPLOADS):
        slow = socket.create_connection((host, int(port)))
        slow.sendall(
            f"PUT /api/v1/runs/{run.id}/files/outputs/{n} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {4 << 20}\r\n\r\n".encode()
        )
        slow.sendall(b"x" * (2 << 20 if n % 2 else 100))
        sockets.append(slow)
    before = time.monotonic()
    (home.folder / "a").write_bytes(b"a" * (3 << 20))
    run.upload_file("outputs/done", str(home.folder / "a"))
    assert run.get_file_names() == ["outputs/done"]
    assert time.monotonic() - before < 30
    for slow in sockets:
        slow.close()
    incoming = home.home / "blobs" / "incoming"
    wait_until(lambda: not list(incoming.iterdir()))
    assert run.get_file_names() == ["outputs/done"]
    run.complete()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://u:geheim@/x?host=/nowhere", "cannot be used"),
        ("postgresql:geheim", "cannot be read"),
        ("mysql://u:geheim@h/x", "not supported"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_sentence(tmp_path: Path, url: str, words: str) -> None:
    env = {**os.environ, "WHERRY_HOME": str(tmp_path / "home"), "WHERRY_DATABASE_URL": url}
    done = subprocess.run(
        [sys.executable, "-m", "wherry.api"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "geheim" not in done.stderr


def test_a_settings_file_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"port = \xff\n")
    env = {**os.environ, "WHERRY_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "wherry.api"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert f"the settings file {tmp_path}/config cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
