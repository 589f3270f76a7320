"""Several processes on a node, several nodes of a run, and a second attempt, in real runners."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.test_attempt import Attempt, python, until
from wherry.runner.folder import Folder
from wherry.runner.ranks import Ranks
from wherry.testing.fakes import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def attempt(tmp_path: Path, server: FakeServer) -> Iterator[Attempt]:
    made = Attempt(tmp_path / "a1", server)
    yield made
    made.end()


def ranks(roles: list[list[str]], kind: str = "pytorch", node: int = 0) -> dict[str, Any]:
    hosts = [f"127.0.0.{at + 1}" for at in range(len(roles))]
    names = [f"host-{at}" for at in range(len(roles))]
    return {"node": node, "type": kind, "hosts": hosts, "names": names, "roles": roles}


def variables(given: dict[str, Any], ports: list[list[int]], local: int = 0) -> dict[str, str]:
    found = Ranks(given, Folder("/n"), 5.0)
    found.ports = ports
    return found.variables(local)


def test_what_a_process_of_the_second_node_is_told() -> None:
    told = variables(
        ranks([["worker"] * 2, ["worker"] * 2], node=1), [[7000, 1, 2], [7001, 3, 4]], 1
    )
    assert told["RANK"] == "3"
    assert told["LOCAL_RANK"] == "1"
    assert told["WORLD_SIZE"] == "4"
    assert told["LOCAL_WORLD_SIZE"] == "2"
    assert told["NODE_RANK"] == told["WHERRY_NODE_RANK"] == "1"
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("127.0.0.1", "7000")
    assert told["AZ_BATCH_MASTER_NODE"] == "127.0.0.1:7000"
    assert told["AZ_BATCHAI_MPI_MASTER_NODE"] == "127.0.0.1"
    assert told["AZ_BATCH_HOST_LIST"] == told["WHERRY_NODE_LIST"] == "127.0.0.1,127.0.0.2"
    assert told["WHERRY_NODE_NAMES"] == "host-0,host-1"
    assert not {name for name in told if name.startswith(("OMPI", "TF_"))}


def test_open_mpi_s_variables_come_with_mpi() -> None:
    told = variables(ranks([["worker"] * 2, ["worker"] * 2], "mpi", 1), [[7000, 1, 2]] * 2)
    assert told["OMPI_COMM_WORLD_RANK"] == "2"
    assert told["OMPI_COMM_WORLD_SIZE"] == "4"
    assert told["OMPI_COMM_WORLD_LOCAL_RANK"] == "0"
    assert told["OMPI_COMM_WORLD_LOCAL_SIZE"] == "2"


def test_tensorflow_has_its_cluster_in_tf_config() -> None:
    roles = [["worker", "ps"], ["worker"]]
    ports = [[7000, 7001, 7002], [8000, 8001]]
    assert json.loads(variables(ranks(roles, "tensorflow", 1), ports)["TF_CONFIG"]) == {
        "cluster": {"worker": ["127.0.0.1:7001", "127.0.0.2:8001"], "ps": ["127.0.0.1:7002"]},
        "task": {"type": "worker", "index": 1},
    }
    server = json.loads(variables(ranks(roles, "tensorflow"), ports, 1)["TF_CONFIG"])
    assert server["task"] == {"type": "ps", "index": 0}


SAY = "import os; print('I am', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)"


def test_each_process_has_its_variables_and_its_log(attempt: Attempt, server: FakeServer) -> None:
    attempt.start(python(SAY), ranks=ranks([["worker"] * 3])).finish()
    assert attempt.record["exit_code"] == 0
    assert {name: bytes(log) for name, log in server.logs.items()} == {
        "a1/user_logs/std_log.txt": b"I am 0 of 3\n",
        "a1/user_logs/std_log_process_1.txt": b"I am 1 of 3\n",
        "a1/user_logs/std_log_process_2.txt": b"I am 2 of 3\n",
    }


def test_one_process_needs_no_launcher_and_a_user_s_variable_stays(attempt: Attempt) -> None:
    code = "import os; print(os.getppid(), os.environ['RANK'], os.environ['MASTER_PORT'])"
    given = {"MASTER_PORT": "4711"}
    attempt.start(python(code), ranks=ranks([["worker"]]), env=given).finish()
    assert attempt.log.split() == [str(attempt.process.pid).encode(), b"0", b"4711"]


def test_one_process_that_fails_ends_the_others_with_its_code(attempt: Attempt) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit(7)\ntime.sleep(100)"
    record = attempt.start(python(code), ranks=ranks([["worker"] * 3])).finish()
    assert record["exit_code"] == 7
    assert b"process 1 exited with code 7; the others of this node are ended" in attempt.log


def test_the_error_is_that_of_the_process_that_failed(attempt: Attempt) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1': 1 / 0\ntime.sleep(100)"
    record = attempt.start(python(code), ranks=ranks([["worker"] * 2])).finish()
    assert record["error"]["exception"] == "ZeroDivisionError: division by zero"


def test_a_process_killed_by_a_signal_is_the_node_s_end_by_it(attempt: Attempt) -> None:
    code = (
        "import os, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 11)\ntime.sleep(100)"
    )
    record = attempt.start(python(code), ranks=ranks([["worker"] * 2])).finish()
    assert (record["exit_code"], record["signal"]) == (None, 11)


def test_one_that_will_not_end_is_killed(attempt: Attempt) -> None:
    code = (
        "import os, signal, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    while not os.path.exists('deaf'): time.sleep(0.01)\n"
        "    raise SystemExit(3)\n"
        "signal.signal(15, signal.SIG_IGN); open('deaf', 'w').close(); time.sleep(100)"
    )
    started = attempt.start(python(code), ranks=ranks([["worker"] * 2]), grace_s=1.0)
    assert started.finish()["exit_code"] == 3


def test_parameter_servers_end_with_the_workers(attempt: Attempt) -> None:
    code = (
        "import json, os, time\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "time.sleep(100 if task['type'] == 'ps' else 0)"
    )
    given = ranks([["worker", "worker", "ps"]], "tensorflow")
    assert attempt.start(python(code), ranks=given).finish()["exit_code"] == 0


def test_a_request_to_end_reaches_every_process_once(attempt: Attempt) -> None:
    code = (
        "import os, signal, sys, time\n"
        "def heard(*_): print('heard', flush=True); time.sleep(0.3); sys.exit(0)\n"
        "signal.signal(15, heard); print('ready', flush=True); time.sleep(100)"
    )
    attempt.start(python(code), ranks=ranks([["worker"] * 2]))
    logs = [attempt.folder / "std_log.txt", attempt.folder / "std_log_process_1.txt"]
    until(lambda: all(log.exists() and b"ready" in log.read_bytes() for log in logs))
    attempt.process.send_signal(signal.SIGTERM)
    assert attempt.finish()["canceled"] is True
    assert [log.read_bytes() for log in logs] == [b"ready\nheard\n"] * 2


def test_a_missing_script_is_told_as_ever(attempt: Attempt) -> None:
    attempt.start([sys.executable, "none.py"], {"x": ""}, ranks=ranks([["worker"] * 2])).finish()
    assert attempt.record["setup_error"] == "the script none.py is not in the snapshot"


MPIRUN = """#!/bin/sh
test "$1" = -n || exit 9
test -z "$OMPI_COMM_WORLD_RANK" || exit 8
count=$2; shift 2
for rank in $(seq 0 $((count - 1))); do OMPI_COMM_WORLD_RANK=$rank "$@" & done
wait
"""


def test_mpirun_starts_the_processes_where_there_is_one(attempt: Attempt, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "mpirun"
    program.parent.mkdir()
    program.write_text(MPIRUN)
    program.chmod(0o755)
    attempt.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    code = f"{SAY}; print(os.environ['OMPI_ALLOW_RUN_AS_ROOT'])"
    attempt.start(python(code), ranks=ranks([["worker"] * 2], "mpi")).finish()
    assert attempt.log == b"I am 0 of 2\n1\n"
    other = attempt.folder / "std_log_process_1.txt"
    assert other.read_bytes() == b"I am 1 of 2\n1\n"


def test_nodes_wait_for_each_other(attempt: Attempt, server: FakeServer) -> None:
    server.ports = [None]
    code = "import os; print(os.environ['MASTER_PORT'], os.environ['WORLD_SIZE'])"
    attempt.start(python(code), ranks=ranks([["worker"], ["worker"]]))
    sentence = "waiting for node 1 (host-1) to be ready"
    until(lambda: any(report.get("message") == sentence for report in server.reports))
    assert not (attempt.folder / "std_log.txt").exists()
    server.ports = [[8000, 8001]]
    attempt.finish()
    own = next(report["ports"] for report in server.reports if report.get("ports"))
    assert len(set(own)) == 2
    assert attempt.log.split() == [str(own[0]).encode(), b"2"]


def test_who_waits_for_others_hears_a_request_to_end(attempt: Attempt, server: FakeServer) -> None:
    server.ports = [None]
    attempt.start(["/bin/true"], ranks=ranks([["worker"], ["worker"]]))
    until(lambda: server.reports)
    attempt.process.send_signal(signal.SIGTERM)
    assert attempt.finish()["canceled"] is True


def test_a_second_attempt_finds_the_files_of_the_first(
    attempt: Attempt, server: FakeServer
) -> None:
    server.files = {
        "outputs/model/a.bin": b"kept",
        "outputs/changed.txt": b"old",
        "node_0/outputs/mine.txt": b"of this node",
        "node_1/outputs/theirs.txt": b"of another",
        "checkpoints/7.pt": b"seven",
        "logs/of-the-first.txt": b"",
    }
    code = (
        "import glob, os\n"
        "print(sorted(glob.glob('*/**/*.*', recursive=True)), os.environ['WHERRY_ATTEMPT'])\n"
        "open('outputs/changed.txt', 'a').write(' and new')"
    )
    attempt.start(python(code), attempt=2).finish()
    assert attempt.log.decode().strip() == (
        "['checkpoints/7.pt', 'outputs/changed.txt', 'outputs/mine.txt', 'outputs/model/a.bin'] 2"
    )
    assert server.files["outputs/changed.txt"] == b"old and new"
    sent = [each.path for each in server.exchanges if each.method in ("PUT", "POST")]
    assert sum("/files" in path for path in sent) == 1
    assert "outputs/mine.txt" not in server.files


def test_checkpoints_are_kept_while_the_command_runs(attempt: Attempt, server: FakeServer) -> None:
    code = (
        "import os, time\n"
        "os.mkdir('checkpoints'); open('checkpoints/1.pt', 'w').write('one'); time.sleep(100)"
    )
    attempt.start(python(code))
    until(lambda: server.files.get("checkpoints/1.pt") == b"one")
    attempt.process.send_signal(signal.SIGTERM)
    attempt.finish()


def test_what_cannot_be_brought_back_keeps_the_command_from_starting(
    attempt: Attempt, server: FakeServer
) -> None:
    server.fail = lambda method, path: 403 if path.endswith("/files") else None
    record = attempt.start(["/bin/true"], attempt=2).finish()
    assert "earlier attempt cannot be brought back" in record["setup_error"]
