"""Machines that are made: containers with sshd and a home that stays, by a real server."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests import sshd
from tests.homes import Home, wait_until
from tests.podman import BASE, Podman
from wherry import Experiment, Run, RunConfiguration, ScriptRunConfig, Workspace
from wherry.cli.app import run as wherry
from wherry.compute import ComputeTarget, ComputeTargetException, DsvmCompute
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.ids import new_uuid

from .relay import relaying

PATH = "/workspaces/w/computes"
NOTE = "import os\nopen(os.path.expanduser('~/note'), 'a').write('x')\n"
READ = "import os\nprint('note', open(os.path.expanduser('~/note')).read())\n"
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def boxes(home: Home, podman: Podman) -> Iterator[Workspace]:
    if sshd.missing():
        pytest.skip(sshd.missing())
    put_site(podman)
    workspace = Workspace.create("w", exist_ok=True)
    yield workspace
    for each in workspace._client.get(PATH)["items"]:
        with suppress(NotFoundError, UserErrorException, ConflictError):  # leaving, or this machine
            workspace._client.delete(f"{PATH}/{each['name']}?cancel=true")
    wait_until(lambda: left(podman) == ([], []))  # while there is a server that removes them


def put_site(podman: Podman, **options: Any) -> None:
    config = {"engine": podman.host, "image": BASE, "network": "host", "cores": 2, **options}
    config.setdefault("memory", "2GiB")
    body = {"kind": "container", "config": config}
    Workspace.create("w", exist_ok=True)._client.request("PUT", "/sites/boxes", json=body)


def left(podman: Podman) -> tuple[list[str], list[str]]:
    """Containers, and homes."""
    volumes = podman("volume", "ls", "--format", "{{.Name}}").split()
    return (
        podman("ps", "--all", "--format", "{{.Names}}").split(),
        [each for each in volumes if each.startswith("wherry-home-")],
    )


def images(podman: Podman) -> list[str]:
    """That machines are made of."""
    listed = podman("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    return [each for each in listed if "wherry-machine" in each]


def machine(workspace: Workspace, name: str = "mydsvm", **options: Any) -> DsvmCompute:
    config = DsvmCompute.provisioning_configuration(location="boxes", **options)
    made = ComputeTarget.create(workspace, name, config)
    assert isinstance(made, DsvmCompute)
    return made


def ran(home: Home, text: str, target: str = "mydsvm") -> Run:
    run = home.submit(text, compute_target=target)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()
    return run


def log_of(home: Home, run: Run) -> str:
    run.download_file("user_logs/std_log.txt", str(home.folder / "log"))
    return (home.folder / "log").read_text()


def found_or_made(ws: Workspace, compute_target_name: str) -> ComputeTarget:
    """As Azure's documentation has it, with a site in the place of a region."""
    try:
        dsvm_compute: ComputeTarget = DsvmCompute(workspace=ws, name=compute_target_name)
        print("found existing:", dsvm_compute.name)
    except ComputeTargetException:
        print("creating new.")
        dsvm_config = DsvmCompute.provisioning_configuration(
            vm_size="Standard_D2_v2", location="boxes"
        )
        dsvm_compute = DsvmCompute.create(
            ws, name=compute_target_name, provisioning_configuration=dsvm_config
        )
        dsvm_compute.wait_for_completion(show_output=True)
    return dsvm_compute


def test_a_machine_is_made_used_and_deleted(
    home: Home, boxes: Workspace, podman: Podman, capsys: pytest.CaptureFixture[str]
) -> None:
    found_or_made(boxes, "mydsvm")
    told = capsys.readouterr().out
    assert told.startswith("creating new.\nSucceeded"), told
    assert told.endswith('Provisioning operation finished, operation "Succeeded"\n')
    dsvm_compute = found_or_made(boxes, "mydsvm")
    assert capsys.readouterr().out == "found existing: mydsvm\n"
    assert (dsvm_compute.type, dsvm_compute.provisioning_state) == ("VirtualMachine", "Succeeded")
    assert isinstance(dsvm_compute, DsvmCompute)
    assert (dsvm_compute.address, dsvm_compute.username) == ("127.0.0.1", "root")
    run_config = RunConfiguration(framework="python")
    run_config.target = "mydsvm"
    run_config.prepare_environment = True
    home.script(NOTE)
    src = ScriptRunConfig(str(home.source), script="train.py", run_config=run_config)
    run = Experiment(boxes, "seeds").submit(src)
    assert run.wait_for_completion(show_output=True)["status"] == "Completed"
    (name,), (volume,) = left(podman)
    facts = json.loads(podman("inspect", name))[0]
    assert facts["HostConfig"]["NanoCpus"] == 2_000_000_000
    assert facts["HostConfig"]["Memory"] == 2 << 30
    labels = json.loads(podman("volume", "inspect", volume))[0]["Labels"]
    assert labels["wherry.site"] == "boxes"
    assert "PRIVATE KEY" not in podman("inspect", name)
    assert b"PRIVATE KEY" not in (home.home / "wherry.db").read_bytes()
    dsvm_compute.delete()
    dsvm_compute.wait_for_completion(show_output=True, is_delete_operation=True)
    assert left(podman) == ([], [])
    assert images(podman) == []


@pytest.mark.containers
def test_the_image_of_machines_goes_with_the_last_of_them(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    first, second = (machine(boxes, name, vm_size="local-1") for name in ("first", "second"))
    for each in (first, second):
        each.wait_for_completion()
    for each, kept in ((first, 1), (second, 0)):
        each.delete()
        each.wait_for_completion(is_delete_operation=True)
        assert len(images(podman)) == kept


@pytest.mark.containers
def test_a_machine_is_opened_by_a_certificate(
    home: Home, boxes: Workspace, podman: Podman, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["compute", "create", "mydsvm", "-w", "w", "--type", "virtualmachine"]
    assert wherry([*asked, "--location", "boxes", "--size", "local-1"]) == 0, capfd.readouterr().err
    capfd.readouterr()
    assert wherry(["compute", "show", "mydsvm", "-w", "w"]) == 0
    assert "address      root@127.0.0.1:" in capfd.readouterr().out
    connect = ["compute", "connect-ssh", "mydsvm", "-w", "w"]
    assert wherry([*connect, "--", "echo at home in $HOME; exit 7"]) == 7
    assert "at home in /root\n" in capfd.readouterr().out
    assert wherry([*connect, "--print", "--", "id"]) == 0
    command = capfd.readouterr().out
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("uid=0"), done.stderr
    assert wherry([*connect, "-i", str(home.folder / "none")]) == 2
    assert "none.pub cannot be read" in capfd.readouterr().err
    sshd.make_key(home.folder / "mine")
    assert wherry([*connect, "-i", str(home.folder / "mine"), "--", "true"]) == 0
    mine = ["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-i", str(home.folder / "mine")]
    port = str(DsvmCompute(boxes, "mydsvm").ssh_port)
    known = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    refused = subprocess.run(["ssh", *mine, *known, "-p", port, "root@127.0.0.1", "true"])
    assert refused.returncode == 255  # without a certificate


@pytest.mark.containers
def test_a_home_outlives_the_container_and_the_engine(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    made = machine(boxes)
    made.wait_for_completion()
    ran(home, NOTE)
    (name,), homes = left(podman)
    key = made._node["host_key"]
    podman("kill", name)  # as when the engine's machine is restarted
    ran(home, NOTE)
    podman("rm", "--force", "--time", "0", name)  # behind our back
    ran(home, NOTE)
    made.stop()
    wait_until(lambda: left(podman)[0] == [])
    assert left(podman)[1] == homes
    made.start()
    assert "note xxx" in log_of(home, ran(home, READ))
    made.refresh_state()
    assert made._node["host_key"] == key
    assert left(podman)[1] == homes


@pytest.mark.containers
def test_a_run_that_its_machine_stopped_under_is_told_with_what_it_printed(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    machine(boxes).wait_for_completion()
    run = home.submit(SLEEP, compute_target="mydsvm")
    wait_until(lambda: run.get_status() == "Running")
    podman("kill", left(podman)[0][0])
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    assert "begun" in log_of(home, run)
    ran(home, NOTE)


STEPS = {
    "made": ["POST /volumes/create", "POST /build", "POST /containers/create", "PUT /containers",
             "/start"],
    "deleted": ["DELETE /containers", "DELETE /volumes", "DELETE /images"],
}  # fmt: skip


@pytest.mark.containers
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS["made"] + STEPS["deleted"])
def test_a_server_that_is_killed_while_a_machine_is_made_or_deleted_leaks_nothing(
    home: Home, boxes: Workspace, podman: Podman, step: str, when: str
) -> None:
    killed = threading.Event()

    def die(line: str, moment: str) -> None:
        if step in line and moment == when and not killed.is_set():
            killed.set()
            home.kill_server()

    with relaying(home.folder / "engine.sock", podman.host, die) as engine:
        image = f"localhost/wherry-test-{new_uuid()[:8]}"
        unlike = f"FROM {BASE}\nLABEL like={image}\n"  # any other: so that the machine's is built
        podman("build", "--tag", image, "-", data=unlike.encode())
        put_site(podman, engine=engine, image=image)
        made = machine(boxes)
        made.wait_for_completion()  # by another server, where the first was killed
        assert [len(each) for each in left(podman)] == [1, 1]
        ran(home, NOTE)
        made.delete()
        made.wait_for_completion(is_delete_operation=True)
        assert left(podman) == ([], [])
        assert images(podman) == []
    assert killed.is_set()


@pytest.mark.containers
def test_an_engine_that_goes_and_comes_back(home: Home, boxes: Workspace, podman: Podman) -> None:
    engine = home.folder / "engine.sock"
    engine.symlink_to(podman.socket)
    put_site(podman, engine=f"unix://{engine}")
    made = machine(boxes)
    made.wait_for_completion()
    engine.unlink()
    podman("kill", left(podman)[0][0])
    run = home.submit(NOTE, compute_target="mydsvm")
    wait_until(lambda: made.get_status() and made.problem)
    assert "does not answer" in str(made.problem)
    engine.symlink_to(podman.socket)
    run.wait_for_completion()
    assert run.get_status() == "Completed"


@pytest.mark.containers
def test_an_image_that_is_not_there_is_told(home: Home, boxes: Workspace, podman: Podman) -> None:
    put_site(podman, image="localhost/nowhere:latest")
    with pytest.raises(ComputeTargetException, match=r"nowhere:latest.*cannot be pulled"):
        machine(boxes).wait_for_completion()


@pytest.mark.containers
def test_an_image_that_nothing_can_be_installed_in_is_told(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    remove = "FROM " + BASE + '\nRUN ["/usr/bin/rm", "/usr/sbin/sshd"]\n'
    words = ["build", "--network", "host", "--tag", "localhost/bare:latest", "-"]
    podman(*words, data=remove.encode())
    put_site(podman, image="localhost/bare:latest")
    with pytest.raises(ComputeTargetException, match="no sshd, or no python3, and no package man"):
        machine(boxes).wait_for_completion()


@pytest.mark.containers
def test_a_package_index_that_is_out_of_reach_is_told(
    home: Home, boxes: Workspace, podman: Podman
) -> None:
    apt = "#!/bin/sh\\necho E: no index answers >&2\\nexit 100\\n"
    script = f"import os; p='/usr/bin/apt-get'; open(p, 'w').write('{apt}'); os.chmod(p, 0o755)"
    steps = [["/usr/bin/rm", "/usr/sbin/sshd"], ["/usr/bin/python3", "-c", script]]
    text = "\n".join([f"FROM {BASE}", *(f"RUN {json.dumps(step)}" for step in steps)])
    words = ["build", "--network", "host", "--tag", "localhost/offline:latest", "-"]
    podman(*words, data=text.encode())
    put_site(podman, image="localhost/offline:latest")
    with pytest.raises(ComputeTargetException, match="E: no index answers"):
        machine(boxes).wait_for_completion()


@pytest.mark.containers
def test_a_port_that_is_taken(home: Home, boxes: Workspace, podman: Podman) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        made = machine(boxes, ssh_port=port)
        wait_until(lambda: made.get_status() and made.problem)
        assert f"port {port} of the engine's host is taken" in str(made.problem)
        assert left(podman)[0] == []
    made.wait_for_completion()
    assert made.ssh_port == port


@pytest.mark.containers
def test_a_machine_in_a_network_of_its_own(home: Home, boxes: Workspace, podman: Podman) -> None:
    if podman.bridged():
        pytest.skip(podman.bridged())
    put_site(podman, network="bridge")
    made = machine(boxes)
    made.wait_for_completion()
    ran(home, NOTE)
    (name,), _ = left(podman)
    assert podman("port", name) == f"2222/tcp -> 127.0.0.1:{made.ssh_port}"
    other = machine(boxes, "other", vm_size="local-1", ssh_port=made.ssh_port)
    made.stop()  # there is room for one, and its port is another's when it comes back
    other.wait_for_completion()
    assert podman("port", left(podman)[0][0]) == f"2222/tcp -> 127.0.0.1:{made.ssh_port}"
    ran(home, NOTE, "other")
    other.delete()
    other.wait_for_completion(is_delete_operation=True)
    made.start()
    ran(home, NOTE)
