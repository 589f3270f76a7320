"""Container instances: a container for each run, of the size that it asked for, gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wherry
from tests.containers.relay import relaying
from tests.homes import Home, wait_until
from tests.podman import BASE, Podman
from wherry import (
    CondaDependencies,
    Experiment,
    Run,
    RunConfiguration,
    ScriptRunConfig,
    Workspace,
)
from wherry.core.errors import UserErrorException

TRAIN = """
import os
from wherry import Run
run = Run.get_context()
run.log("loss", 0.5)
open("outputs/model.txt", "w").write("weights")
print("inside", not os.path.exists("/srv"))
"""
WAITS = """
import os, time
print("begun", flush=True)
while not os.path.exists("go"): time.sleep(0.05)
print("done")
"""
HUNGRY = "held = []\nwhile True: held.append(bytearray(16 << 20))\n"


@pytest.fixture
def engine(home: Home, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[Podman]:
    monkeypatch.setenv("DOCKER_HOST", podman.host)
    monkeypatch.setenv("WHERRY_CONTAINER_IMAGE", BASE)
    yield podman
    left = podman.left_after(120)
    assert left == "", f"a container is left: {left}"


def submit(home: Home, text: str, **size: Any) -> Run:
    run_config = RunConfiguration()
    run_config.target = "containerinstance"
    for name, value in size.items():
        setattr(run_config.container_instance, name, value)
    return home.submit(text, run_config=run_config)


def container_of(podman: Podman, run: Run) -> str:
    return podman("ps", "--quiet", "--filter", f"label=wherry.run={run.id}")


def said(run: Run) -> str:
    return str(run.get_details_with_logs()["logFiles"].get("user_logs/std_log.txt", ""))


def begun(podman: Podman, run: Run) -> str:
    """The container of the run, once its script is under way."""
    wait_until(lambda: run.get_status() == "Running" and container_of(podman, run))
    return container_of(podman, run)


def test_a_run_has_a_container_of_its_own_and_leaves_none(home: Home, engine: Podman) -> None:
    run = submit(home, TRAIN)
    run.wait_for_completion()
    assert run.get_status() == "Completed", run.get_details()
    assert run.get_details()["target"] == "containerinstance"
    assert run.get_metrics() == {"loss": 0.5}
    assert "outputs/model.txt" in run.get_file_names()
    assert "containerinstance" not in run.experiment.workspace.compute_targets
    hungry = submit(home, HUNGRY, cpu_cores=0.5, memory_gb=0.2, region="eastus")
    hungry.wait_for_completion(raise_on_error=False)
    error = hungry.get_details()["error"]["error"]
    assert (hungry.get_status(), error["code"]) == ("Failed", "OutOfMemory")
    assert "it may use 200.0 MB: ask for more" in error["message"]


@pytest.mark.containers
def test_its_size_is_enforced_and_given_by_resources_too(home: Home, engine: Podman) -> None:
    run = submit(home, WAITS, cpu_cores="0.5", memory_gb=0.3)
    facts = json.loads(engine("inspect", begun(engine, run)))[0]["HostConfig"]
    assert (facts["NanoCpus"], facts["Memory"]) == (500_000_000, 300_000_000)
    other = home.submit(
        WAITS, compute_target="containerinstance", resources={"cpu": 1, "memory": "200MB"}
    )
    facts = json.loads(engine("inspect", begun(engine, other)))[0]["HostConfig"]
    assert (facts["NanoCpus"], facts["Memory"]) == (1_000_000_000, 200_000_000)
    for each in (run, other):
        each.cancel()
        each.wait_for_completion(raise_on_error=False)
        assert each.get_status() == "Canceled"


@pytest.mark.containers
def test_it_shares_this_machine_with_local(
    home: Home, engine: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_LOCAL_CPUS", "1")
    first = home.submit(WAITS)
    wait_until(lambda: first.get_status() == "Running")
    boxed, plain = submit(home, TRAIN), home.submit(TRAIN)
    assert "(1 CPU in use); next in line" in boxed.get_detailed_status()["details"]
    wait_until(lambda: "1 run before it" in str(plain.get_detailed_status()))
    release(home)
    for run in (first, boxed, plain):
        run.wait_for_completion()
        assert run.get_status() == "Completed"
    ends, starts = boxed.get_details()["endTimeUtc"], plain.get_details()["startTimeUtc"]
    assert ends <= starts, "the one that came later has waited"


def release(home: Home) -> None:
    for work in home.home.glob("nodes/*/*/work"):
        (work / "go").touch()


def put_site(name: str, engine: str, **options: Any) -> None:
    body = {"kind": "container", "config": {"engine": engine, "image": BASE, **options}}
    workspace = Workspace.create("w", exist_ok=True)
    workspace._client.request("PUT", f"/sites/{name}", json=body)


def test_a_site_of_the_same_engine_is_a_region(home: Home, engine: Podman) -> None:
    (home.folder / "data").mkdir()
    (home.folder / "data" / "rows").write_text("of the site")
    put_site("boxes", engine.host, volumes=[f"{home.folder}/data:/data:ro"])
    run = submit(home, "print(open('/data/rows').read())\n", region="boxes")
    run.wait_for_completion()
    assert said(run) == "of the site\n"


def test_what_cannot_be_is_refused_with_a_sentence(home: Home, engine: Podman) -> None:
    def refused(text: str, **size: Any) -> str:
        with pytest.raises(UserErrorException) as caught:
            submit(home, TRAIN, **size)
        assert text in str(caught.value)
        return str(caught.value)

    refused("'containerinstance' cannot run it: it asks for 1000 CPUs", cpu_cores=1000)
    refused("this machine has", memory_gb=10_000)
    refused("there is no region 'atlantis'", region="atlantis")
    put_site("far", "unix:///nowhere.sock")
    told = refused("the engine of site 'far' is unix:///nowhere.sock", region="far")
    assert "--location far" in told
    with pytest.raises(UserErrorException, match="2 nodes"):
        home.submit(
            TRAIN,
            compute_target="containerinstance",
            distributed_job_config=wherry.MpiConfiguration(node_count=2),
        )


def test_while_the_engine_is_stopped_it_waits_and_nobody_else_does(
    home: Home, podman: Podman, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHERRY_CONTAINER_IMAGE", BASE)
    socket = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    run = submit(home, TRAIN)
    waits_for = f"cannot be used: the container engine at unix://{socket} on"
    wait_until(lambda: waits_for in run.get_detailed_status()["details"])
    local = home.submit("print('not held back')")
    local.wait_for_completion()
    assert run.get_status() == "Queued"
    with relaying(socket, podman.host, lambda _line, _moment: None):
        run.wait_for_completion()
    assert run.get_status() == "Completed"


@pytest.mark.containers
def test_whoever_is_killed_the_run_ends_as_it_ends(home: Home, engine: Podman) -> None:
    """The server, the runner, and both at once."""
    for victims in ((server_pid,), (runner_pid,), (server_pid, runner_pid)):
        run = submit(home, WAITS + "raise SystemExit(4)\n")
        begun(engine, run)
        for pid in [victim(home) for victim in victims]:
            os.kill(pid, signal.SIGKILL)
        home.submit("pass").wait_for_completion()  # which starts a server where there is none
        release(home)
        run.wait_for_completion(raise_on_error=False)
        assert "exited with code 4" in run.get_details()["error"]["error"]["message"]
        assert said(run) == "begun\ndone\n"
        wait_until(lambda: engine("ps", "--all", "--quiet") == "")


def server_pid(home: Home) -> int:
    return home.server_pid()


def runner_pid(home: Home) -> int:
    """Of the run that is under way."""
    folders = home.home.glob("nodes/containerinstance/*")
    (running,) = [each for each in folders if (each / "container").exists()]
    return int(json.loads((running / "started").read_text())["pid"])


@pytest.mark.containers
def test_a_container_that_somebody_removes_is_told(home: Home, engine: Podman) -> None:
    run = submit(home, WAITS)
    engine("rm", "--force", "--time", "0", begun(engine, run))
    run.wait_for_completion(raise_on_error=False)
    message = run.get_details()["error"]["error"]["message"]
    assert message == "killed by SIGKILL: its container was removed from outside"


@pytest.mark.containers
def test_an_engine_that_is_killed_and_comes_back_costs_nothing(
    home: Home, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left undone meanwhile, it is asked for again."""
    monkeypatch.setenv("WHERRY_CONTAINER_IMAGE", BASE)
    folder = Path(tempfile.mkdtemp(prefix="wherry-podman-"))
    second = Podman(podman._store, folder)
    monkeypatch.setenv("DOCKER_HOST", second.host)
    service = second.serve()
    try:
        run = submit(home, WAITS)
        begun(second, run)
        service.kill()
        service.wait()
        second.socket.unlink()
        release(home)
        run.wait_for_completion()
        assert (run.get_status(), said(run)) == ("Completed", "begun\ndone\n")
        wait_until(lambda: [*home.home.glob("nodes/containerinstance/.boxes/*")])
        service = second.serve()
        assert second.left_after(120) == ""
    finally:
        service.terminate()
        service.wait()
        second("umount", "--all")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.containers
def test_the_block_of_the_old_documents(
    home: Home, engine: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was written for Azure; its image is another here, of the same name."""
    dockerfile = f"FROM {BASE}\nENV AZURE=yes\n".encode()
    engine("build", "--tag", wherry.DEFAULT_CPU_IMAGE, "-", data=dockerfile)
    home.script("import os, sklearn; print(os.environ['AZURE'], sklearn.__name__)\n")
    # create a new runconfig object
    run_config = RunConfiguration()

    # signal that you want to use ACI to run script.
    run_config.target = "containerinstance"

    # ACI container group is only supported in certain regions, which can be different than the
    # region the Workspace is in.
    run_config.container_instance.region = "eastus"

    # set the ACI CPU and Memory
    run_config.container_instance.cpu_cores = 1
    run_config.container_instance.memory_gb = 2

    # enable Docker
    run_config.environment.docker.enabled = True

    # set Docker base image to the default CPU-based image
    run_config.environment.docker.base_image = wherry.DEFAULT_CPU_IMAGE

    # use conda_dependencies.yml to create a conda environment in the Docker image
    run_config.environment.python.user_managed_dependencies = False

    # auto-prepare the Docker image when used for the first time (if it is not already prepared)
    run_config.auto_prepare_environment = True

    # specify CondaDependencies obj
    run_config.environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=["scikit-learn"]
    )

    experiment = Experiment(Workspace.create("w", exist_ok=True), "aci")
    run = experiment.submit(ScriptRunConfig(str(home.source), "train.py", run_config=run_config))
    run.wait_for_completion()
    assert said(run) == "yes sklearn\n"
    assert run.get_details()["target"] == "containerinstance"
