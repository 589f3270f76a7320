"""The promises of every driver, kept on a node that is a container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.podman import BASE, Podman
from wherry.core.compute_configs import ContainersConfig
from wherry.drivers.agent_driver import AgentDriver
from wherry.drivers.site_container import ContainerSite
from wherry.testing.driver_contract import DriverContract, MakeDriver


@pytest.mark.containers
class TestContainerNode(DriverContract):
    python = "/usr/bin/python3"

    @pytest.fixture
    def make_driver(self, podman: Podman, tmp_path: Path) -> Iterator[MakeDriver]:
        shared = [f"{tmp_path}:{tmp_path}"]
        config = ContainersConfig(podman.host, BASE, volumes=shared, network="host")
        root, locks = str(tmp_path / "nodes"), str(tmp_path / "locks")
        site = ContainerSite("box", config, "me", root, locks, lambda: "")
        size = site.sizes()[0]
        made: list[AgentDriver] = []

        def make() -> AgentDriver:
            driver = site.driver("node", site.make("node", size))
            assert isinstance(driver, AgentDriver)
            made.append(driver)
            return driver

        yield make
        for driver in made:
            driver.close()
        site.remove("node")
        assert site.machines() == {}


@pytest.mark.containers
def test_a_home_outlives_its_container_and_goes_when_it_is_forgotten(
    podman: Podman, tmp_path: Path
) -> None:
    config = ContainersConfig(podman.host, BASE, network="host")
    site = ContainerSite("box", config, "me", "/nodes", str(tmp_path), lambda: "")
    size = site.sizes()[0]
    write, read = "echo kept > {}/notes", "read line < {}/notes; test $line = kept"
    for node, command in (("one", write), ("two", read)):
        machine = site.make(node, size, "h")
        folder = machine.config["home"]
        podman("exec", machine.config["container"], "sh", "-c", command.format(folder))
        assert site.machines()[node].config["home"] == folder
        site.remove(node)
    for _ in range(2):
        site.forget("h")
    assert "wherry-home-h" not in podman("volume", "ls", "-q")
