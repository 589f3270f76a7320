"""The promises of style and protocol, kept by the drivers that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

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


class TestLocal(DriverContract):
    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> MakeDriver:
        return lambda: LocalDriver(tmp_path / "nodes")


class TestLocalInAnOddPlace(DriverContract):
    nursery = False

    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> MakeDriver:
        return lambda: LocalDriver(tmp_path / ODD)
