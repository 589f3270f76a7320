"""Whole runs on a machine over SSH, by a real server: what is printed, logged and written arrives,
whatever dies on the way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.homes import Home, wait_until
from tests.sshd import Sshd
from wherry import Run
from wherry.core.errors import NotFoundError

TRAIN = """
import os, sys
from wherry import Run
run = Run.get_context()
print("server", os.environ["WHERRY_SERVER"], "python", sys.executable, flush=True)
run.log("loss", 0.25)
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("weights")
run.tag("seen", "yes")
"""
COUNT = """
import os, sys, time
print("start", flush=True)
n = 0
while not os.path.exists(sys.argv[1]):
    n += 1
    print("line", n, flush=True)
    time.sleep(0.05)
print("end", n)
"""


class Lab:
    """A server with one machine over SSH, named ``lab``."""

    def __init__(self, home: Home, sshd: Sshd, root: Path) -> None:
        self.home = home
        self.sshd = sshd
        self.root = root
        self._file = home.folder / "machines.json"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        machine = {
            "name": "lab",
            "host": dict(self.sshd.host().__dict__),
            "root": str(self.root),
        }
        self._file.write_text(json.dumps([machine]))
        argv = [sys.executable, "-m", "tests.ssh.serving", str(self._file)]
        address = self.home.home / "server.json"
        before = address.stat().st_mtime_ns if address.exists() else 0
        with (self.home.folder / "server.err").open("ab") as talk:
            self._process = subprocess.Popen(argv, stderr=talk)
        wait_until(lambda: self._came_up(address, before))

    def _came_up(self, address: Path, before: int) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home.folder / "server.err").read_text()
        return address.exists() and address.stat().st_mtime_ns != before

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def submit(self, text: str, *arguments: str, **options: Any) -> Run:
        return self.home.submit(text, *arguments, compute_target="lab", **options)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def attempts(self) -> list[Path]:
        return [path for path in self.root.iterdir() if not path.name.startswith(".")]


@pytest.fixture
def lab(home: Home, own_sshd: Sshd, tmp_path: Path) -> Iterator[Lab]:
    own_sshd.start()
    lab = Lab(home, own_sshd, tmp_path / "node")
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()
        with suppress(AssertionError):
            wait_until(lambda: not left_on(own_sshd), 30)
        left = left_on(own_sshd)
        for process in left:
            process.kill()
    assert left == []


def left_on(sshd: Sshd) -> list[psutil.Process]:
    """What runs still belong to: nothing of an ended run stays."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except (psutil.Error, OSError):
            continue
        if environment.get("HOME") == str(sshd.home) and "WHERRY_ATTEMPT_ID" in environment:
            found.append(process)
    return found


def log_text(run: Run) -> str:
    chunks: list[bytes] = []
    with suppress(NotFoundError):  # nothing yet
        run.stream_logs(chunks.append, follow=False)
    return b"".join(chunks).decode()


def test_a_run_elsewhere_is_like_one_here(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(TRAIN)
    run.wait_for_completion()
    assert run.get_status() == "Completed"
    text = log_text(run)
    server = json.loads((lab.home.home / "server.json").read_text())["url"]
    assert "server http://127.0.0.1:" in text
    assert f"server {server} " not in text  # by way of a port of the node's own
    assert run.get_metrics() == {"loss": 0.25}
    assert "outputs/model.txt" in run.get_file_names()
    assert run.get_tags()["seen"] == "yes"
    short = [lab.submit(f"print({number})") for number in range(5)]
    for number, each in enumerate(short):
        each.wait_for_completion()
        assert log_text(each).strip() == str(number)
    endless = lab.submit(COUNT, str(tmp_path / "never"))
    wait_until(lambda: "start" in log_text(endless))
    endless.cancel()
    wait_until(lambda: endless.get_status() == "Canceled")
    wait_until(lambda: not lab.attempts())  # nothing is left on the node
    assert lab.sshd.logins() == 1


def whole(text: str) -> bool:
    """Nothing is missing and nothing is there twice."""
    lines = text.split("\n")
    count = int(lines[-2].split()[1])
    return lines == ["start", *(f"line {n}" for n in range(1, count + 1)), f"end {count}", ""]


def test_a_run_outlives_connections_and_servers(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(COUNT, str(tmp_path / "done"))
    wait_until(lambda: "line 3\n" in log_text(run))
    for harm in (lab.sshd.drop, lab.kill):
        harm()
        if harm == lab.kill:
            lab.start()
        seen = log_text(run).count("\n")
        wait_until(lambda seen=seen: log_text(run).count("\n") > seen + 5)  # type: ignore[misc]
    (tmp_path / "done").touch()
    run.wait_for_completion()
    assert run.get_status() == "Completed"
    assert whole(log_text(run))


@pytest.mark.ssh
def test_a_dropped_connection_in_mid_run(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(COUNT, str(tmp_path / "done"))
    wait_until(lambda: "line 3\n" in log_text(run))
    lab.sshd.drop()
    seen = log_text(run).count("\n")
    wait_until(lambda: log_text(run).count("\n") > seen + 5)  # it is there again by itself
    (tmp_path / "done").touch()
    run.wait_for_completion()
    assert run.get_status() == "Completed"
    assert whole(log_text(run))
    assert lab.sshd.logins() == 2


@pytest.mark.ssh
def test_sshd_stopped_and_started(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(COUNT, str(tmp_path / "done"))
    wait_until(lambda: "line 3\n" in log_text(run))
    lab.sshd.drop()
    lab.sshd.stop()
    (tmp_path / "done").touch()  # it ends while nobody can be told
    second = lab.submit("print('later')")
    wait_until((lab.attempts()[0] / "exit.json").exists)
    assert run.get_status() == "Running"
    lab.sshd.start()
    for each in (run, second):
        each.wait_for_completion()
        assert each.get_status() == "Completed"
    assert whole(log_text(run))


@pytest.mark.ssh
def test_a_server_that_is_killed_adopts_what_it_started(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(COUNT, str(tmp_path / "done"))
    wait_until(lambda: "line 3\n" in log_text(run))
    lab.kill()
    lab.start()
    seen = log_text(run).count("\n")
    wait_until(lambda: log_text(run).count("\n") > seen + 5)
    (tmp_path / "done").touch()
    run.wait_for_completion()
    assert run.get_status() == "Completed"
    assert whole(log_text(run))


@pytest.mark.ssh
def test_a_node_that_was_restarted_is_told_apart(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(COUNT, str(tmp_path / "never"))
    wait_until(lambda: "line 3\n" in log_text(run))
    folder = lab.attempts()[0]
    runner = int(json.loads((folder / "started").read_text())["pid"])
    os.kill(runner, signal.SIGSTOP)
    for name in ("started", "spawned"):
        if (folder / name).exists():
            facts = json.loads((folder / name).read_text())
            facts["identity"] = f"another-boot:{facts['identity'].partition(':')[2]}"
            (folder / name).write_text(json.dumps(facts))
    os.kill(runner, signal.SIGKILL)
    for process in left_on(lab.sshd):
        process.kill()
    lab.sshd.drop()
    wait_until(lambda: run.get_status() == "Failed")
    assert "the machine was restarted while it ran" in run.get_details()["error"]["message"]
    assert "line 3\n" in log_text(run)


@pytest.mark.ssh
def test_a_full_disk_on_the_node_is_waited_out(
    home: Home, own_sshd: Sshd, small_disk: Path
) -> None:
    own_sshd.start()
    lab = Lab(home, own_sshd, small_disk / "node")
    (small_disk / "filling").write_bytes(bytes((2 << 20) - 8192))
    os.sync()
    lab.start()
    try:
        run = lab.submit("print('there was room in the end')")
        wait_until(lambda: "No space left" in (home.folder / "server.err").read_text())
        assert run.get_status() not in ("Completed", "Failed")
        (small_disk / "filling").unlink()
        run.wait_for_completion()
        assert run.get_status() == "Completed"
    finally:
        lab.stop()
