"""Runs on two nodes of a cluster of this machine: they meet, fail together, and are preempted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builds.index import Index, serve
from tests.e2e.test_environments import environment
from tests.homes import Home, wait_until
from wherry import MpiConfiguration, PyTorchConfiguration, Run, Workspace
from wherry.compute import AmlCompute, ComputeTarget

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two nodes, two cores")


@pytest.fixture
def make_cluster(home: Home) -> Callable[[str], AmlCompute]:
    """Of two nodes on this machine."""

    def make(priority: str) -> AmlCompute:
        wanted = AmlCompute.provisioning_configuration("local-1", priority, max_nodes=2)
        made = ComputeTarget.create(Workspace.create("w", exist_ok=True), "duo", wanted)
        assert isinstance(made, AmlCompute)
        return made

    return make


@pytest.fixture
def cluster(make_cluster: Callable[[str], AmlCompute]) -> AmlCompute:
    return make_cluster("dedicated")


# Every process but the first sends its rank to where all meet.
MEET = """
import os, socket, sys, time
from wherry import Run

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
total = 0
if rank == 0:
    with socket.create_server(place) as server:
        for _ in range(world - 1):
            with server.accept()[0] as peer:
                total += int(peer.recv(100))
else:
    while True:
        try:
            with socket.create_connection(place) as peer:
                peer.sendall(str(rank).encode())
            break
        except OSError:
            time.sleep(0.05)
print("rank", rank, "of", world, "total", total, flush=True)
Run.get_context().log(f"rank_{rank}", rank)
for name in (f"rank_{rank}.txt", "same.txt"):
    open(f"outputs/{name}", "w").write(str(rank))
if "--fail" in sys.argv:
    sys.exit(5) if rank == 1 else time.sleep(600)
"""


def read(run: Run, name: str, folder: Path) -> str:
    run.download_file(name, str(folder / "read"))
    return (folder / "read").read_text()


def test_processes_of_two_nodes_work_together(
    home: Home, cluster: ComputeTarget, tmp_path: Path
) -> None:
    job = MpiConfiguration(process_count_per_node=2, node_count=2)
    run = home.submit(MEET, compute_target=cluster, distributed_job_config=job)
    assert run.wait_for_completion()["status"] == "Completed"
    logs = {
        f"user_logs/std_log_process_{rank}.txt": f"rank {rank} of 4 total {0 if rank else 6}\n"
        for rank in range(4)
    }
    logs["user_logs/std_log.txt"] = logs["user_logs/std_log_process_0.txt"]
    assert {name: read(run, name, tmp_path) for name in logs} == logs
    assert run.get_metrics() == {f"rank_{rank}": rank for rank in range(4)}
    shown = subprocess.run(
        [str(Path(sys.executable).parent / "wherry"), "logs", "-w", "w", "--process", "3"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert shown.stdout == logs["user_logs/std_log_process_3.txt"]
    outputs = {name for name in run.get_file_names() if "outputs/" in name}
    ranks = {f"outputs/rank_{rank}.txt" for rank in range(4)}
    assert outputs == {*ranks, "outputs/same.txt", "node_1/outputs/same.txt"}
    assert read(run, "outputs/same.txt", tmp_path) in ("0", "1")


def test_one_node_that_fails_ends_the_run_and_is_named(home: Home, cluster: ComputeTarget) -> None:
    job = PyTorchConfiguration(node_count=2)
    run = home.submit(MEET, "--fail", compute_target=cluster, distributed_job_config=job)
    details = run.wait_for_completion(raise_on_error=False)
    assert details["status"] == "Failed"
    assert details["error"]["message"].startswith("node 1 (")
    assert details["error"]["message"].endswith(") exited with code 5")
    wait_until(lambda: not home.running("train.py"))


# The first node saves what it has when it is asked to end, and all go on from there.
RESUMES = """
import os, pathlib, signal, sys, time

saved = pathlib.Path("checkpoints/step.txt")
if saved.exists():
    told = pathlib.Path("outputs/first.txt").read_text()
    print("attempt", os.environ["WHERRY_ATTEMPT"], "goes on at", saved.read_text(), told)
    sys.exit()

def save(*_):
    if os.environ["RANK"] == "0":
        saved.parent.mkdir()
        saved.write_text("7")
    sys.exit()

signal.signal(signal.SIGTERM, save)
pathlib.Path("outputs/first.txt").write_text("of the first")
print("ready", flush=True)
time.sleep(600)
"""


def test_a_preempted_run_goes_on_where_it_was(
    home: Home, make_cluster: Callable[[str], AmlCompute], tmp_path: Path
) -> None:
    cluster = make_cluster("lowpriority")
    job = PyTorchConfiguration(node_count=2)
    run = home.submit(RESUMES, compute_target=cluster, distributed_job_config=job)
    logs = [f"user_logs/std_log_process_{rank}.txt" for rank in (0, 1)]
    wait_until(lambda: set(logs) <= set(run.get_file_names()))
    wait_until(lambda: [read(run, log, tmp_path) for log in logs] == ["ready\n"] * 2)
    cluster.simulate_eviction()
    assert run.wait_for_completion()["status"] == "Completed"
    told = "attempt 2 goes on at 7 of the first\n"
    assert [read(run, log, tmp_path) for log in logs] == [told] * 2
    assert read(run, "user_logs/attempt_1/std_log.txt", tmp_path) == "ready\n"
    events = Workspace.create("w", exist_ok=True)._client.get(f"/runs/{run.id}/events")["items"]
    (event,) = [each for each in events if each["reason"] == "Preempted"]
    assert event["to"] == "Queued"
    assert event["message"].endswith(
        "was taken away (evicted by hand); it starts again with what it has saved"
    )


def test_a_runner_killed_while_it_prepares_costs_an_attempt_not_the_run(
    home: Home, cluster: AmlCompute, tmp_path: Path
) -> None:
    with serve(Index()) as index:
        index.add("only_here", "1.0", source="WORD = 'at last'")
        index.let_go.clear()
        run = home.submit(
            "import only_here; print(only_here.WORD)",
            environment=environment(f"--index-url {index.url}/simple", "only_here"),
            compute_target=cluster,
            distributed_job_config=MpiConfiguration(process_count_per_node=1, node_count=2),
        )
        wait_until(index.asked.is_set)
        wait_until(lambda: len(started(home)) == 2)
        os.kill(json.loads(started(home)[1].read_text())["pid"], signal.SIGKILL)
        wait_until(lambda: ("Queued", "RunnerLost") in history(run))
        index.let_go.set()
        assert run.wait_for_completion()["status"] == "Completed"
    assert read(run, "user_logs/std_log_process_1.txt", tmp_path) == "at last\n"
    assert [to for to, _ in history(run)].count("Running") <= 1


def started(home: Home) -> list[Path]:
    return sorted((home.home / "nodes").glob("*/*-*-*/started"))


def history(run: Run) -> list[tuple[str, str | None]]:
    return [(event["to"], event["reason"]) for event in run.get_events()]
