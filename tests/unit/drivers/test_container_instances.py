"""The driver of container instances, as far as it can be seen without an engine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from wherry.containers import engine
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.drivers import container_instances
from wherry.drivers.base import Launch
from wherry.drivers.container_instances import ContainerInstances


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContainerInstances:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("CONTAINER_HOST", raising=False)
    for module in (engine, container_instances):
        monkeypatch.setattr(module, "sockets", lambda _variables: [str(tmp_path / "docker.sock")])
    return ContainerInstances(tmp_path / "nodes", cpus=2, memory_bytes=10**9)


def test_a_machine_without_an_engine_refuses(driver: ContainerInstances) -> None:
    refusal = driver.refuse(Resources(), None)
    assert refusal is not None
    assert "a container instance asks for a container, but no container engine answers" in refusal
    assert "install Docker" in refusal
    assert "DOCKER_HOST, where the server is started" in refusal


def test_one_that_has_stopped_is_waited_for(driver: ContainerInstances, tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    assert driver.refuse(Resources(), "/no/such/python") is None
    with pytest.raises(TargetUnavailableError, match="no container engine answers"):
        driver.check()
    with pytest.raises(TargetUnavailableError) as caught:
        driver.submit(Launch("a1", ["true"]))
    assert caught.value.fields["unsent"]
    assert not (tmp_path / "nodes" / "a1").exists()


def test_more_than_the_machine_has_is_refused(driver: ContainerInstances, tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    owned = "this machine has 2 CPUs, 1.0 GB of memory"
    assert driver.refuse(Resources(3), None) == f"it asks for 3 CPUs, {owned}"


def test_one_that_takes_too_long_to_answer_is_waited_for(
    driver: ContainerInstances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_instances, "_ANSWER_S", 0.05)
    with socket.socket(socket.AF_UNIX) as slow:
        slow.bind(str(tmp_path / "docker.sock"))
        slow.listen()
        with pytest.raises(TargetUnavailableError, match=r"does not answer \(timed out\)"):
            driver.check()
