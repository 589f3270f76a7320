"""The driver contract once more, with every command in a container."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.podman import BASE, Podman
from wherry.core.lifecycle import Phase
from wherry.drivers.base import Driver, Handle, Launch
from wherry.drivers.container_instances import ContainerInstances
from wherry.drivers.local import LocalDriver
from wherry.testing.driver_contract import DriverContract, MakeDriver
from wherry.testing.evidence import assert_still, beats, look


@pytest.mark.containers
class TestLocalInContainers(DriverContract):
    """A command cannot reach its runner from there: who kills that one comes from outside."""

    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))

    @pytest.fixture(autouse=True)
    def engine(
        self, podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setenv("DOCKER_HOST", podman.host)
        monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
        self._world = tmp_path / "world"
        yield
        self.until(lambda: podman("ps", "--all", "--format", "{{.Names}}") == "")

    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> MakeDriver:
        self._nodes = tmp_path / "nodes"
        return lambda: LocalDriver(self._nodes)

    def launch(self, *words: Any, **options: Any) -> Launch:
        launch = super().launch(*words, **options)
        manifest = json.loads(launch.files["manifest.json"])
        mount = ["-v", f"{self._world}:{self._world}"] if self._world.exists() else []
        docker = {"enabled": True, "image": BASE, "arguments": mount}
        manifest["environment"] = {"name": "boxed", "docker": docker}
        return replace(launch, files={"manifest.json": json.dumps(manifest).encode()})

    def lose_runner(self, driver: Driver, launch: Launch, world: Path) -> Handle:
        handle = driver.submit(launch)
        self.until(lambda: beats(world / "beat") > 2)
        started = json.loads((self._nodes / launch.attempt_id / "started").read_text())
        os.kill(started["pid"], signal.SIGKILL)
        before = beats(world / "beat")
        self.until(lambda: beats(world / "beat") > before + 5)
        return handle

    def test_a_lost_runner_is_no_success(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        """The engine knows how it ended: its exit code is brought home."""
        driver = self.rescuer(make_driver)
        launch = self.launch("beat", str(world / "beat"), time_limit_s=5.0)
        handle = self.lose_runner(driver, launch, world)
        assert look(driver, handle).phase is Phase.RUNNING
        assert driver.rescue(launch)
        record = self.finish(driver, handle)
        assert (record.timed_out, record.lost, record.signal) == (True, False, signal.SIGTERM)
        assert_still(world / "beat")

    def test_force_ends_what_a_lost_runner_left(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        handle = self.lose_runner(driver, self.launch("beat", str(world / "beat")), world)
        assert look(driver, handle).phase is Phase.RUNNING
        driver.cancel(handle, force=True)
        self.ended(driver, handle)
        assert_still(world / "beat")

    def test_a_rescue_watches_what_a_lost_runner_left(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = self.rescuer(make_driver)
        launch = self.launch("beat", str(world / "beat"))
        handle = self.lose_runner(driver, launch, world)
        assert driver.rescue(launch)
        assert driver.rescue(launch)  # one is at it
        assert look(driver, handle).phase is Phase.RUNNING
        driver.cancel(handle)
        record = self.finish(driver, handle)
        assert (record.canceled, record.lost) == (True, False)
        assert_still(world / "beat")

    def test_fifty_in_one_look(self, make_driver: MakeDriver) -> None:
        pytest.skip("fifty containers at once are for machines with more cores")


@pytest.mark.containers
class TestContainerInstances(TestLocalInContainers):
    """And with the container held to what its run asks for."""

    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> MakeDriver:
        self._nodes = tmp_path / "nodes"
        return lambda: ContainerInstances(self._nodes)

    def launch(self, *words: Any, **options: Any) -> Launch:
        launch = super().launch(*words, **options)
        manifest = json.loads(launch.files["manifest.json"])
        manifest["limits"] = {"cpu": 1.0, "memory_bytes": 2 * 10**9}
        return replace(launch, files={"manifest.json": json.dumps(manifest).encode()})
