"""The small modules that only look: environment, evidence, processes, programs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wherry.runner import evidence, tree
from wherry.runner.environment import command_environment
from wherry.runner.folder import Folder
from wherry.runner.process import find_program, missing_script
from wherry.runner.workspace import SetupError

MANIFEST = {
    "run_id": "exp_1_ab",
    "attempt_id": "a1",
    "server": "http://127.0.0.1:8123",
    "server_file": "/home/x/server.json",
    "token": "t0ken",
    "env": {"WHERRY_WORKSPACE": "ws", "MINE": "1"},
}


def test_the_commands_environment() -> None:
    found = command_environment({"PATH": "/bin", "MINE": "0"}, MANIFEST, "/n/a1", "/lib")
    assert found == {
        "PATH": "/bin",
        "MINE": "1",
        "WHERRY_WORKSPACE": "ws",
        "WHERRY_RUN_ID": "exp_1_ab",
        "WHERRY_ATTEMPT_ID": "a1",
        "WHERRY_ATTEMPT": "1",
        "WHERRY_SERVER": "http://127.0.0.1:8123",
        "WHERRY_SERVER_FILE": "/home/x/server.json",
        "WHERRY_RUN_TOKEN": "t0ken",
        "WHERRY_SPOOL": "/n/a1",
        "AZUREML_RUN_ID": "exp_1_ab",
        "AZUREML_RUN_TOKEN": "t0ken",
        "AZUREML_SERVICE_ENDPOINT": "http://127.0.0.1:8123",
        "MLFLOW_TRACKING_URI": "http://127.0.0.1:8123/mlflow/ws",
        "MLFLOW_TRACKING_TOKEN": "t0ken",
        "MLFLOW_RUN_ID": "exp_1_ab",
        "PYTHONPATH": "/lib",
        "PYTHONUNBUFFERED": "1",
    }


def test_what_the_user_set_stays_but_for_who_the_run_is() -> None:
    env = {
        "PYTHONPATH": "/theirs",
        "PYTHONUNBUFFERED": "",
        "MLFLOW_TRACKING_URI": "http://mine",
        "MLFLOW_RUN_ID": "theirs",
        "WHERRY_RUN_ID": "forged",
    }
    found = command_environment({"PYTHONPATH": "/old"}, {**MANIFEST, "env": env}, "/n", "/lib")
    assert found["PYTHONPATH"] == "/lib:/theirs"
    assert found["PYTHONUNBUFFERED"] == ""
    assert found["MLFLOW_TRACKING_URI"] == "http://mine"
    assert found["MLFLOW_RUN_ID"] == "theirs"
    assert found["WHERRY_RUN_ID"] == "exp_1_ab"


def test_without_a_server_nothing_points_to_one() -> None:
    found = command_environment({}, {**MANIFEST, "server": "", "token": ""}, "/n", "/lib")
    assert not {"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"} & set(found)


def test_memory_kills_are_counted_in_every_form() -> None:
    assert evidence.count_kills(b"nr_free 1\noom_kill 3\noom_kill_disable 9\n") == 3
    assert evidence.count_kills(b"low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\noom_group_kill 0\n") == 2
    assert evidence.count_kills(b"oom_kill_disable 0\nunder_oom 0\noom_kill 7\n") == 7
    assert evidence.count_kills(b"oom_kill 4") == 4
    assert evidence.count_kills(b"oom_kill_disable 1\n") is None
    assert evidence.count_kills(b"") is None


def test_control_groups_of_both_versions() -> None:
    assert evidence.group_files(b"0::/user.slice/x.scope\n") == [
        "/sys/fs/cgroup/user.slice/x.scope/memory.events"
    ]
    assert evidence.group_files(b"4:memory:/jobs/1\n3:cpu,cpuacct:/\n0::/\n") == [
        "/sys/fs/cgroup/memory/jobs/1/memory.oom_control",
        "/sys/fs/cgroup/memory.events",
    ]


def test_the_counters_of_this_machine_can_be_read() -> None:
    assert evidence.out_of_memory_kills() >= 0


@pytest.mark.parametrize(("group", "counted"), [(b"oom_kill 2\n", 2), (b"", 5)])
def test_the_group_counts_and_the_machine_where_it_does_not(
    monkeypatch: pytest.MonkeyPatch, group: bytes, counted: int
) -> None:
    texts = {
        "/proc/self/cgroup": b"0::/x\n",
        "/sys/fs/cgroup/x/memory.events": group,
        "/proc/vmstat": b"oom_kill 5\n",
    }
    monkeypatch.setattr(evidence, "_read", lambda path: texts[path])
    assert evidence.out_of_memory_kills() == counted


def test_a_kill_long_before_the_end_is_not_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    clock = iter([100.0, 101.0, 106.0, 107.0, 112.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(evidence, "out_of_memory_kills", lambda: count)
    kills = evidence.MemoryKills()
    count = 1
    for _ in range(3):
        kills.look()
        assert kills.lately(), "the end of the process may take a while"
    kills.look()
    assert not kills.lately()


def test_ps_and_proc_agree() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        listed = tree._from_ps()
        assert listed[child.pid] == (os.getpid(), child.pid, child.pid)
        assert listed[os.getpid()] == (os.getppid(), os.getsid(0), os.getpgrp())
        if sys.platform == "linux":
            assert tree._from_proc()[child.pid] == listed[child.pid]
        # By its session: this process may have other children, of other tests.
        assert tree.members(-1, child.pid) == {child.pid: child.pid}
        assert tree.members(os.getpid(), -1)[child.pid] == child.pid
    finally:
        child.kill()
        child.wait()
    assert child.pid not in tree.processes()


def test_what_ps_prints() -> None:
    listing = "  1     0  1 Ss\n 77     1 70 S+\n 78 77 70 Z\nodd line\n"
    assert tree.parse_ps(listing, lambda pid: pid * 10) == {1: (0, 10, 1), 77: (1, 770, 70)}


def test_members_follow_descent_and_session(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {
        10: (1, 10, 10),  # the runner
        11: (10, 11, 11),  # its command
        12: (11, 11, 12),
        13: (12, 13, 13),  # went into a session of its own
        14: (1, 11, 11),  # an orphan of the command's session
        15: (14, 15, 15),
        20: (1, 20, 20),  # a stranger
    }
    monkeypatch.setattr(tree, "processes", lambda: table)
    assert tree.members(10, 11) == {11: 11, 12: 12, 13: 13, 14: 11, 15: 15}


def test_programs_are_looked_up_on_the_commands_path(tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(SetupError, match="no program 'mine'"):
        find_program("mine", str(tmp_path))
    program.chmod(0o755)
    assert find_program("mine", f"/nowhere:{tmp_path}") == str(program)
    assert find_program("./mine", "") == "./mine"


@pytest.mark.parametrize(
    ("argv", "missing"),
    [
        (["python", "train.py"], "train.py"),
        (["/usr/bin/python3.11", "-u", "-W", "error", "src/train.py", "x"], "src/train.py"),
        (["python", "there.py"], None),
        (["python", "-m", "pkg"], None),
        (["python", "-c", "pass"], None),
        (["python3", "-um", "pkg"], None),
        (["python", "-Iuc", "pass"], None),
        (["python", "-uWerror", "train.py"], "train.py"),
        (["python", "-uX", "dev", "train.py"], "train.py"),
        (["python3.13t", "train.py"], "train.py"),
        (["python", "--check-hash-based-pycs", "never", "there.py"], None),
        (["python-wrapper", "train"], None),
        (["python"], None),
        (["bash", "train.sh"], None),
    ],
)
def test_a_missing_script_is_named(
    argv: list[str], missing: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.py").touch()
    monkeypatch.chdir(tmp_path)
    assert missing_script(argv) == missing


def test_one_runner_claims_an_attempt(tmp_path: Path) -> None:
    assert Folder(str(tmp_path)).claim(1.0)
    assert not Folder(str(tmp_path)).claim(2.0)


def test_the_exit_record_has_room_on_a_full_disk(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.reserve()
    assert (tmp_path / "exit.json.tmp").stat().st_size >= 8192
    folder.write_exit({"exit_code": 3})
    assert (tmp_path / "exit.json").read_text() == '{"exit_code": 3}'
    assert not (tmp_path / "exit.json.tmp").exists()
    assert (tmp_path / "exit.json").stat().st_mode & 0o777 == 0o600


def test_a_record_that_does_not_fit_on_the_disk_is_shortened(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.reserve()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, before[1]))
    try:
        folder.write_exit({"exit_code": 3, "error": {"tail": "é" * 4000}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "exit.json").read_text() == '{"exit_code": 3, "error": null}'


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', "{}"])
def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(SetupError, match="the manifest"):
        Folder(str(tmp_path)).manifest()
