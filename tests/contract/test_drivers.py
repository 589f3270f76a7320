"""The promises of style and protocol, kept by the drivers that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherry.drivers.fleet import Fleet
from wherry.drivers.local import LocalDriver
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.testing import programs
from wherry.testing.driver_contract import DriverContract, MakeDriver
from wherry.testing.evidence import ODD


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


class TestMemory(DriverContract):
    simulated = "the memory driver runs threads"

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        backend = MemoryBackend(programs=programs.by_name(*programs.EVERYWHERE))
        return lambda: MemoryDriver(backend)


class TestFleet(DriverContract):
    """The nodes of a cluster as one driver: here with one node, which has no name."""

    simulated = "the memory driver runs threads"

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        backend = MemoryBackend(programs=programs.by_name(*programs.EVERYWHERE))
        return lambda: Fleet(lambda node: None if node else MemoryDriver(backend))

    def test_check_finds_a_node(self, make_driver: MakeDriver) -> None:
        """It may well have none: they are looked after one by one."""
        assert list(make_driver().check().nodes) == []


class TestLocal(DriverContract):
    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> MakeDriver:
        return lambda: LocalDriver(tmp_path / "nodes")


class TestLocalInAnOddPlace(DriverContract):
    nursery = False

    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> MakeDriver:
        return lambda: LocalDriver(tmp_path / ODD)
