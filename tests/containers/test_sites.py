"""Clusters whose nodes are containers: real ones, of a real engine, by a real server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from tests.homes import Home, wait_until
from tests.podman import BASE, Podman
from wherry import AmlCompute, Environment, PyTorchConfiguration, Run, Workspace
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException, WherryError
from wherry.drivers import site_container

TRAIN = """
import os, platform
from wherry import Run
run = Run.get_context()
print("on", platform.node())
run.log("loss", 0.5)
open("outputs/model.txt", "w").write("weights")
"""
HUNGRY = "held = []\nwhile True: held.append(bytearray(16 << 20))\n"


@pytest.fixture
def boxes(home: Home, podman: Podman) -> Iterator[Workspace]:
    config = {
        "engine": podman.host, "image": BASE, "network": "host", "cores": 2, "memory": "2GiB"
    }  # fmt: skip
    _put("boxes", {"kind": "container", "config": config})
    workspace, before = Workspace.create("w", exist_ok=True), first_processes()
    yield workspace
    path = "/workspaces/w/computes"
    for each in workspace._client.get(path)["items"]:
        with suppress(NotFoundError, UserErrorException, ConflictError):  # leaving, or this machine
            workspace._client.delete(f"{path}/{each['name']}?cancel=true")
    wait_until(lambda: names(podman) == [])  # while there is a server that removes them
    wait_until(lambda: first_processes() <= before)  # an engine may list less than what runs


def _put(site: str, body: dict[str, object]) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    workspace._client.request("PUT", f"/sites/{site}", json=body)


def cluster(workspace: Workspace, name: str, **options: Any) -> Any:
    config = AmlCompute.provisioning_configuration(location="boxes", **options)
    made = AmlCompute.create(workspace, name, config)
    made.wait_for_completion()
    return made


def submit(home: Home, text: str, target: str) -> Run:
    return home.submit(text, compute_target=target)


def problem(workspace: Workspace) -> str | None:
    found: str | None = workspace._client.get("/workspaces/w/computes/c1")["problem"]
    return found


def first_processes() -> set[int]:
    """Of all containers that are nodes, whether their engine knows them or not."""
    found = psutil.process_iter(["cmdline"])
    return {each.pid for each in found if site_container.WAIT in (each.info["cmdline"] or ())}


def names(podman: Podman) -> list[str]:
    return podman("ps", "--all", "--format", "{{.Names}}").split()


def test_a_node_is_a_container_for_as_long_as_runs_need_it(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    target = cluster(boxes, "c1", max_nodes=1, idle_seconds_before_scaledown=5)
    assert names(podman) == []
    run = submit(home, TRAIN, "c1")
    run.wait_for_completion()
    assert run.get_status() == "Completed", run.get_details()
    assert run.get_metrics() == {"loss": 0.5}
    assert "outputs/model.txt" in run.get_file_names()
    (name,) = names(podman)
    facts = json.loads(podman("inspect", name))[0]
    assert facts["HostConfig"]["NanoCpus"] == 1_000_000_000
    assert facts["HostConfig"]["Memory"] == 1 << 30
    wait_until(lambda: names(podman) == [])
    target.delete()
    wait_until(lambda: "c1" not in boxes.compute_targets)
    mine = f"wherry-cache-{json.loads((home.home / 'server.json').read_text())['id']}"
    assert mine in podman("volume", "ls", "--quiet")
    boxes._client.delete("/sites/boxes")
    assert mine not in podman("volume", "ls", "--quiet")


@pytest.mark.containers
def test_a_run_that_takes_more_memory_than_its_node_has_says_so(
    home: Home, boxes: Workspace
) -> None:
    cluster(boxes, "c1", max_nodes=1)
    run = submit(home, HUNGRY, "c1")
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    assert "memory" in str(run.get_details()["error"])


@pytest.mark.containers
def test_a_server_that_was_killed_finds_its_nodes_and_leaks_none(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    target = cluster(boxes, "c1", min_nodes=1, max_nodes=1)
    wait_until(lambda: target.get_status().node_state_counts.idle_node_count == 1)
    before = names(podman)
    home.kill_server()
    run = submit(home, TRAIN, "c1")
    run.wait_for_completion()
    assert names(podman) == before
    podman("rm", "--force", "--time", "0", *before)  # behind our back
    again = submit(home, TRAIN, "c1")
    again.wait_for_completion()
    assert again.get_status() == "Completed"
    assert len(names(podman)) == 1
    target.delete()
    wait_until(lambda: names(podman) == [])


def test_an_engine_that_does_not_answer_is_told_on_the_target(home: Home, podman: Podman) -> None:
    gone = {"engine": "unix:///nowhere/podman.sock", "image": BASE}
    _put("gone", {"kind": "container", "config": gone})
    workspace = Workspace.create("w", exist_ok=True)
    config = AmlCompute.provisioning_configuration(location="gone", max_nodes=1)
    AmlCompute.create(workspace, "c1", config)
    run = submit(home, TRAIN, "c1")
    wait_until(lambda: "does not answer" in str(problem(workspace)))
    run.cancel()
    wait_until(lambda: run.get_status() == "Canceled")


def test_a_run_that_wants_an_image_of_its_own_is_refused_on_such_nodes(
    home: Home, boxes: Workspace
) -> None:
    cluster(boxes, "c1", max_nodes=1)
    environment = Environment.from_docker_image("own", BASE)
    with pytest.raises(WherryError, match="are containers already"):
        home.submit(TRAIN, compute_target="c1", environment=environment)


LATE = """
import os, time
print("begun", flush=True)
while not os.path.exists("/tmp/go"): time.sleep(0.05)
print("the tail", flush=True)
open("outputs/late.txt", "w").write("weights")
open("/tmp/done", "w").close()
time.sleep(600)
"""


@pytest.mark.containers
def test_what_lies_in_a_container_that_has_stopped_is_brought_home(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    cluster(boxes, "c1", max_nodes=1)
    run = submit(home, LATE, "c1")
    wait_until(lambda: "begun" in str(run.get_details_with_logs()["logFiles"]))
    (name,) = names(podman)
    for each in inside(podman, name):  # nothing is sent from now on
        if "train.py" not in each.cmdline() and each.pid != first_of(podman, name):
            each.suspend()
    podman("exec", name, "touch", "/tmp/go")
    wait_until(lambda: podman("exec", name, "ls", "/tmp").find("done") >= 0)
    podman("kill", name)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    assert "the tail" in str(run.get_details_with_logs()["logFiles"])
    assert "outputs/late.txt" in run.get_file_names()


def first_of(podman: Podman, name: str) -> int:
    return int(podman("inspect", "--format", "{{.State.Pid}}", name))


def inside(podman: Podman, name: str) -> list[psutil.Process]:
    space = os.readlink(f"/proc/{first_of(podman, name)}/ns/pid")
    found = []
    for each in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.readlink(f"/proc/{each.pid}/ns/pid") == space:
                found.append(each)
    return found


@pytest.mark.containers
def test_a_run_whose_container_somebody_removes_fails_and_says_so(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    cluster(boxes, "c1", max_nodes=1)
    run = submit(home, LATE, "c1")
    wait_until(lambda: "begun" in str(run.get_details_with_logs()["logFiles"]))
    podman("rm", "--force", "--time", "0", *names(podman))
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    assert "somebody has removed it" in str(run.get_details()["error"])


MEET = """
import os, socket
rank, port = int(os.environ["NODE_RANK"]), int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("0.0.0.0", port)) as server:
        server.settimeout(120)
        print("heard", server.accept()[0].recv(99).decode())
else:
    for _ in range(1200):
        try:
            with socket.create_connection((os.environ["MASTER_ADDR"], port), 120) as way:
                way.sendall(b"the other")
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
"""


@pytest.mark.containers
def test_nodes_in_a_network_of_their_own_meet(home: Home, boxes: Workspace, podman: Podman) -> None:
    if podman.bridged():
        pytest.skip(podman.bridged())
    config = {
        "engine": podman.host, "image": BASE, "network": "bridge", "cores": 2, "memory": "2GiB"
    }  # fmt: skip
    _put("boxes", {"kind": "container", "config": config})
    cluster(boxes, "c1", max_nodes=2, vm_size="local-1")
    two = PyTorchConfiguration(process_count=2, node_count=2)
    run = home.submit("import time\n" + MEET, compute_target="c1", distributed_job_config=two)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()
    logs = run.get_details_with_logs()["logFiles"]
    assert any("heard the other" in text for text in logs.values()), logs
