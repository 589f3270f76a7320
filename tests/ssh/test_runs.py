"""Whole runs on a machine over SSH, by a real server: what is printed, logged and written arrives,
whatever dies on the way.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builds.index import metadata, wheel
from tests.homes import Home, wait_until
from tests.networks import Network
from tests.sshd import Sshd, user
from wherry import CondaDependencies, Environment, Run, Workspace
from wherry.core.errors import NotFoundError
from wherry.sdk.compute.machine import RemoteCompute

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
    """A server with one machine over SSH, attached as ``lab``."""

    def __init__(self, home: Home, sshd: Sshd) -> None:
        self.home = home
        self.sshd = sshd

    def attach(self) -> None:
        machine = RemoteCompute.attach(
            Workspace.create("w", exist_ok=True),
            "lab",
            username=user(),
            address=self.sshd.address,
            ssh_port=self.sshd.port,
            private_key_file=str(self.sshd.folder / "key"),
        )
        machine.wait_for_completion()

    def submit(self, text: str, *arguments: str, **options: Any) -> Run:
        return self.home.submit(text, *arguments, compute_target="lab", **options)

    @property
    def server(self) -> dict[str, Any]:
        return dict(json.loads((self.home.home / "server.json").read_text()))

    @property
    def root(self) -> Path:
        return self.sshd.home / ".wherry-node" / str(self.server["id"])

    def attempts(self) -> list[Path]:
        return [path for path in self.root.iterdir() if not path.name.startswith(".")]


@pytest.fixture
def lab(home: Home, own_sshd: Sshd) -> Iterator[Lab]:
    own_sshd.start()
    lab = Lab(home, own_sshd)
    lab.attach()
    yield lab
    left = ended_on(own_sshd)
    assert left == []


def ended_on(sshd: Sshd) -> list[psutil.Process]:
    """What does not end by itself; it is ended."""
    with suppress(AssertionError):
        wait_until(lambda: not left_on(sshd), 30)
    left = left_on(sshd)
    for process in left:
        process.kill()
    return left


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
    assert "server http://127.0.0.1:" in text
    assert f"server {lab.server['url']} " not in text  # by way of a port of the node's own
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
    assert lab.sshd.logins() == 2  # when it was attached, and for all runs


def test_a_machine_that_forwards_no_ports_has_its_agent_do_it(home: Home, own_sshd: Sshd) -> None:
    own_sshd.start({"AllowTcpForwarding": "no", "AllowStreamLocalForwarding": "no"})
    lab = Lab(home, own_sshd)
    lab.attach()
    run = lab.submit(TRAIN)
    run.wait_for_completion()
    assert f"server {lab.server['url']} " not in log_text(run)
    assert run.get_metrics() == {"loss": 0.25}
    assert "outputs/model.txt" in run.get_file_names()
    assert ended_on(own_sshd) == []


class Count:
    """A run that prints lines until it is told to end; none of them may be lost or come twice."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._done = folder / "done"
        self.run = lab.submit(COUNT, str(self._done))
        wait_until(lambda: "line 3\n" in log_text(self.run))

    def goes_on(self) -> None:
        seen = log_text(self.run).count("\n")
        wait_until(lambda: log_text(self.run).count("\n") > seen + 5)

    def tell(self) -> None:
        self._done.touch()

    def ends_well(self) -> None:
        self.tell()
        self.run.wait_for_completion()
        assert self.run.get_status() == "Completed"
        lines = log_text(self.run).split("\n")
        count = int(lines[-2].split()[1])
        assert lines == ["start", *(f"line {n}" for n in range(1, count + 1)), f"end {count}", ""]


def test_a_run_outlives_connections_and_servers(lab: Lab, tmp_path: Path) -> None:
    count = Count(lab, tmp_path)
    for harm in (lab.sshd.drop, lab.home.kill_server):
        harm()
        count.goes_on()
    count.ends_well()


@pytest.mark.ssh
def test_a_dropped_connection_is_made_once_more(lab: Lab, tmp_path: Path) -> None:
    count = Count(lab, tmp_path)
    lab.sshd.drop()
    count.goes_on()
    count.ends_well()
    assert lab.sshd.logins() == 3


@pytest.mark.ssh
def test_sshd_stopped_and_started(lab: Lab, tmp_path: Path) -> None:
    count = Count(lab, tmp_path)
    lab.sshd.drop()
    lab.sshd.stop()
    count.tell()  # it ends while nobody can be told
    second = lab.submit("print('later')")
    wait_until((lab.attempts()[0] / "exit.json").exists)
    assert count.run.get_status() == "Running"
    lab.sshd.start()
    count.ends_well()
    second.wait_for_completion()
    assert second.get_status() == "Completed"


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
def test_a_network_is_cut_and_healed(
    home: Home, network: Network, shared_sshd: Sshd, tmp_path: Path
) -> None:
    """The machine reaches nothing but what is forwarded to it."""
    inside = ["ip", "netns", "exec", network.name]
    sshd = Sshd(tmp_path / "far", network.address, shared_sshd.cache, inside, port=22)
    sshd.start()
    lab = Lab(home, sshd)
    try:
        lab.attach()
        count = Count(lab, tmp_path)
        network.cut()
        wait_until(lambda: "was lost" in (home.home / "server.log").read_text())
        assert count.run.get_status() in ("Running", "NotResponding")
        network.heal()
        count.goes_on()
        count.ends_well()
        wait_until(lambda: not lab.attempts())
    finally:
        network.heal()
        ended_on(sshd)
        sshd.drop()
        sshd.stop()


@pytest.mark.ssh
def test_a_full_disk_on_the_node_is_told(lab: Lab, small_disk: Path) -> None:
    lab.submit("print('warm')").wait_for_completion()
    wait_until(lambda: not lab.attempts())
    shutil.rmtree(lab.root)
    lab.root.symlink_to(small_disk)
    with suppress(OSError), (small_disk / "filling").open("wb", 0) as filling:
        while True:
            filling.write(bytes(4096))
    run = lab.submit("print('there is no room')")
    wait_until(lambda: run.get_status() == "Failed")
    assert "No space left on device" in run.get_details()["error"]["message"]
    (small_disk / "filling").unlink()
    again = lab.submit("print('there is room again')")
    again.wait_for_completion()
    assert log_text(again) == "there is room again\n"
    wait_until(lambda: not lab.attempts())


@pytest.mark.ssh
def test_a_wheel_of_the_workspace_reaches_a_machine(lab: Lab, tmp_path: Path) -> None:
    """By the run's own way to the server; the machine has no other one."""
    path = tmp_path / "mine-1.0-py3-none-any.whl"
    path.write_bytes(wheel("mine", "1.0", "WORD = 'from afar'", metadata("mine", "1.0", ())))
    address = Environment.add_private_pip_wheel(Workspace.create("w", exist_ok=True), path)
    environment = Environment("train")
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=[address])
    run = lab.submit("import mine; print(mine.WORD)", environment=environment)
    run.wait_for_completion()
    assert log_text(run) == "from afar\n"
