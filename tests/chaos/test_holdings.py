"""A process that does not let go of something is told by kind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from chaos.holdings import grown, held_by

HOARDER = """
import os, socket, subprocess, sys, threading
held = []
print("ready", flush=True)
for line in sys.stdin:
    held.append(eval(line))
    print("done", flush=True)
"""
HOARDED = {
    "file": "os.open(os.devnull, os.O_RDONLY)",
    "pipe": "os.pipe()",
    "socket": "socket.socketpair()",
    "connection": "socket.create_server(('127.0.0.1', 0))",
    "thread": "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "child": "subprocess.Popen(['sleep', '600'])",
}


@pytest.fixture
def hoarder() -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", HOARDER]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.kill()


@pytest.mark.parametrize("kind", HOARDED)
def test_what_is_not_let_go_is_told(hoarder: subprocess.Popen[str], kind: str) -> None:
    assert hoarder.stdin is not None
    assert hoarder.stdout is not None
    before = held_by(hoarder.pid)
    hoarder.stdin.write(HOARDED[kind] + "\n")
    hoarder.stdin.flush()
    hoarder.stdout.readline()
    now = held_by(hoarder.pid)
    count = now[kind]
    assert grown(before, now, {}) == [f"{count} of kind {kind!r} where there were {before[kind]}"]
    assert grown(before, now, {kind: count - before[kind]}) == []
