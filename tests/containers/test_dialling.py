"""A unix socket in a container, reached from here."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests import dialling
from tests.podman import BASE, Podman
from wherry.core.compute_configs import ContainersConfig
from wherry.drivers.agent_driver import AgentDriver
from wherry.drivers.site_container import ContainerSite

pytestmark = pytest.mark.containers


def test_it_leads_into_the_container(podman: Podman, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
        config = ContainersConfig(podman.host, BASE, volumes=[f"{folder}:{folder}"], network="host")
        site = ContainerSite(
            "box", config, "me", f"{folder}/nodes", str(tmp_path / "locks"), lambda: ""
        )
        driver = site.driver("node", site.make("node", site.sizes()[0]))
        assert isinstance(driver, AgentDriver)
        try:
            dialling.keeps_its_promises(driver, Path(folder))
        finally:
            driver.close()
            site.remove("node")
