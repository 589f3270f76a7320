"""Machines that are attached, as their reconciler sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planes import make_plane
from wherry.control.reconciler import Reconciler
from wherry.core.errors import TargetUnavailableError
from wherry.drivers.base import Health
from wherry.drivers.memory import MemoryDriver


class Down(MemoryDriver):
    down = True

    def check(self) -> Health:
        if self.down:
            raise TargetUnavailableError("nothing listens at port 22 of node1.lab")
        return super().check()


def test_what_is_wrong_is_told_though_no_run_needs_it(tmp_path: Path) -> None:
    driver = Down()
    plane = make_plane(tmp_path, {"local": MemoryDriver(), "w/vm": driver})
    reconciler = Reconciler(plane, "w/vm", driver)
    with pytest.raises(TargetUnavailableError):
        reconciler.tick()
    assert plane.problems == {"w/vm": "nothing listens at port 22 of node1.lab"}
    driver.down = False
    reconciler.tick()
    assert plane.problems == {}
    assert plane.machines["w/vm"].nodes
