"""Compute instances in a container and on a host, whole: made, opened through the server, stopped,
started, killed on the way, deleted, and nothing left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sshd as servers
from tests.homes import Home, wait_until
from tests.jupyter import Visitor
from tests.podman import BASE, Podman
from tests.session.conftest import REPOSITORY
from tests.session.test_container import CERTIFICATES
from tests.sshd import Sshd, user
from wherry import Workspace
from wherry.compute import ComputeInstance, ComputeTarget

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]

_PATIENCE_S = 600.0
_SUBMITS = """
from wherry import Experiment, ScriptRunConfig, Workspace
ws = Workspace.from_config()
import os
os.makedirs("code", exist_ok=True)
with open("code/train.py", "w") as file:
    file.write("from wherry import Run; Run.get_context().log('loss', 0.5)")
run = Experiment(ws, "lab").submit(ScriptRunConfig("code", "train.py", compute_target="nb"))
run.wait_for_completion()
print(run.get_status(), run.get_metrics())
"""


@pytest.fixture
def workspace(home: Home, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("WHERRY_CACHE", str(shared_cache))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("PATH", f"{REPOSITORY / '.tools' / 'bin'}:{os.environ['PATH']}")
    return Workspace.create("w", exist_ok=True)


@pytest.fixture
def boxes(workspace: Workspace, podman: Podman, tmp_path: Path) -> Iterator[Podman]:
    image = "localhost/wherry-test-session:latest"
    file = f"FROM {BASE}\nENV SSL_CERT_FILE={CERTIFICATES} PIP_CERT={CERTIFICATES}\n"
    podman("build", "--tag", image, "--file", "-", str(tmp_path), data=file.encode())
    uv = f"{REPOSITORY / '.tools' / 'bin' / 'uv'}:/usr/bin/uv:ro"
    config = {"engine": podman.host, "image": image, "network": "host", "volumes": [uv]}
    body = {"kind": "container", "config": config}
    workspace._client.request("PUT", "/sites/place", json=body)
    yield podman
    _delete(workspace)
    wait_until(lambda: podman("ps", "--all", "--format", "{{.Names}}") == "", 120)
    assert "wherry-home-" not in podman("volume", "ls", "--quiet")


@pytest.fixture
def host(workspace: Workspace, tmp_path: Path, shared_cache: Path) -> Iterator[Sshd]:
    if servers.missing():
        pytest.skip(servers.missing())
    with servers.serving(tmp_path / "sshd", "127.0.0.8", shared_cache) as sshd:
        config = {"hosts": [{"address": sshd.address, "port": sshd.port}], "username": user()}
        body = {"kind": "ssh", "config": config, "secrets": {"private_key": sshd.key}}
        workspace._client.request("PUT", "/sites/place", json=body)
        yield sshd
        _delete(workspace)
        assert list(sshd.home.glob(".wherry-node/*-homes/*")) == []


def _made(workspace: Workspace) -> ComputeInstance:
    config = ComputeInstance.provisioning_configuration(location="place")
    made = ComputeTarget.create(workspace, "nb", config)
    assert isinstance(made, ComputeInstance)
    return made


def _delete(workspace: Workspace) -> None:
    for target in workspace.compute_targets.values():
        if target.type != "local":
            target.delete(cancel_active_runs=True)
            target.wait_for_completion(is_delete_operation=True)


def _lives(instance: ComputeInstance) -> None:
    """A notebook that submits to its own instance; what it installs and writes stays."""
    instance.wait_for_completion()
    assert instance.get_status().state == "Running"
    with Visitor(instance.sign_in_url()).kernel() as kernel:
        assert kernel.run(_SUBMITS) == "Completed {'loss': 0.5}\n"
        kernel.run("%pip install toolz==1.0.0")
    instance.stop(wait_for_completion=True)
    assert instance.get_status().state == "Stopped"
    instance.start(wait_for_completion=True)
    with Visitor(instance.sign_in_url()).kernel() as kernel:
        said = kernel.run("import os, toolz; print(toolz.__version__, os.listdir('code'))")
        assert said == "1.0.0 ['train.py']\n"


def test_in_a_container(workspace: Workspace, boxes: Podman) -> None:
    _lives(_made(workspace))


def test_on_a_host(workspace: Workspace, host: Sshd) -> None:
    _lives(_made(workspace))


def test_a_container_that_is_removed_behind_our_back_is_made_again(
    workspace: Workspace, boxes: Podman
) -> None:
    instance = _made(workspace)
    instance.wait_for_completion()
    with Visitor(instance.sign_in_url()).kernel() as kernel:
        kernel.run("open('kept', 'w').write('here')")
    before = boxes("ps", "--quiet")
    boxes("rm", "--force", *boxes("ps", "--quiet").split())
    wait_until(lambda: boxes("ps", "--quiet") not in ("", before), _PATIENCE_S)
    wait_until(lambda: instance.get_status().state == "Running", _PATIENCE_S)
    with Visitor(instance.sign_in_url()).kernel() as kernel:
        assert kernel.run("print(open('kept').read())") == "here\n"


def test_a_server_that_is_killed_while_one_is_made_or_deleted_leaks_nothing(
    home: Home, workspace: Workspace, boxes: Podman
) -> None:
    """What is there afterwards is counted when the fixture ends."""
    instance = _made(workspace)
    wait_until(lambda: boxes("ps", "--quiet") != "", 120)
    home.kill_server()
    wait_until(lambda: instance.get_status().state == "Running", _PATIENCE_S)
    assert len(boxes("ps", "--quiet").split()) == 1
    with Visitor(instance.sign_in_url()).kernel() as kernel:
        assert kernel.run("print(6 * 7)") == "42\n"
    instance.delete()
    home.kill_server()
    instance.wait_for_completion(is_delete_operation=True)
