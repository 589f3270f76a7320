from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from wherry.core.errors import ComputeTargetException
from wherry.drivers import registry
from wherry.drivers.local import LocalDriver
from wherry.drivers.memory import MemoryDriver


def test_the_drivers_that_come_along() -> None:
    assert registry.load("local") is LocalDriver
    assert registry.load("memory") is MemoryDriver
    assert {"local", "memory"} <= set(registry.kinds())


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ComputeTargetException, match="no driver for targets of kind 'moon'") as e:
        registry.load("moon")
    assert "local" in str(e.value.hint)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "slurm", "no_such_package.slurm:SlurmDriver")
    with pytest.raises(ComputeTargetException, match="needs no_such_package") as caught:
        registry.load("slurm")
    assert caught.value.hint == "pip install 'wherry[slurm]'"


def test_another_package_may_bring_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "wherry.drivers.memory:MemoryDriver", registry.GROUP)

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == registry.GROUP
        return [point] if name in (None, "theirs") else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert registry.load("theirs") is MemoryDriver
    assert "theirs" in registry.kinds()


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, wherry.drivers.registry; print('wherry.drivers.local' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
