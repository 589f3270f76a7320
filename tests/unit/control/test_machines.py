"""Machines that are attached, as their reconciler sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.planes import make_plane
from wherry.control import computes, machines
from wherry.control.reconciler import Reconciler
from wherry.core.errors import TargetUnavailableError
from wherry.drivers.base import Health
from wherry.drivers.memory import MemoryDriver
from wherry.store import computes as store
from wherry.store import instances


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


HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJmMdWzpyGJBTAdGqUMtT2y0nGl1z2Vn0wV4eJ8c1hQX"
GATE_KEY = HOST_KEY.replace("QX", "QY")


@pytest.fixture
def attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A machine behind a gate, as it is kept once it was looked at."""
    plane = make_plane(tmp_path, {"local": MemoryDriver()})
    found = SimpleNamespace(host_key=HOST_KEY, jump_host_keys=(GATE_KEY,))
    monkeypatch.setattr(machines, "look_at", lambda _plane, _row: found)

    def config(method: Callable[..., Any] = computes.put, **fields: Any) -> dict[str, Any]:
        given = {"type": "VirtualMachine", "config": fields}
        method(plane, "w", "vm", given)
        with plane.database.read() as connection:
            row = store.find(connection, "w/vm")
        assert row is not None
        if row.provisioning_state == "Creating":
            machines.attach(plane, row)
        kept: dict[str, Any] = computes.show(plane, "w", "vm")["config"]
        return kept

    return config


@pytest.mark.parametrize("host_key", ["", HOST_KEY])
def test_the_keys_of_all_machines_on_the_way_are_kept(
    attached: Callable[..., Any], host_key: str
) -> None:
    """Also where the machine's own was said beforehand: passwords are sent to the first."""
    kept = attached(address="deep.lab", jump="me@gate.lab", host_key=host_key)
    assert (kept["host_key"], kept["jump_host_keys"]) == (HOST_KEY, [GATE_KEY])
    again = attached(address="deep.lab", jump="me@gate.lab", host_key=host_key)
    assert again == kept


def test_another_machine_has_other_keys(attached: Callable[..., Any]) -> None:
    attached(address="deep.lab", jump="me@gate.lab", host_key="", jump_host_keys=[HOST_KEY])
    moved = attached(computes.change, jump="me@other.lab")
    assert moved["jump_host_keys"] == [GATE_KEY]
    plane_kept = attached(computes.change, python="/opt/python")
    assert plane_kept["host_key"] == HOST_KEY


def test_what_could_not_be_attached_may_become_anything(tmp_path: Path) -> None:
    plane = make_plane(tmp_path, {"local": MemoryDriver()})
    for number, type in enumerate(("ComputeInstance", "AmlCompute")):
        name = f"nb{number}"
        machine = {"address": "127.0.0.1", "port": 1}
        computes.put(plane, "w", name, {"type": "VirtualMachine", "config": machine})
        with plane.database.read() as connection:
            row = store.find(connection, f"w/{name}")
        assert row is not None
        machines.attach(plane, row)
        assert computes.show(plane, "w", name)["provisioning_state"] == "Failed"
        config = {"max_nodes": 1} if type == "AmlCompute" else {}
        made, _ = computes.put(plane, "w", name, {"type": type, "config": config})
        assert (made["provisioning_state"], made["problem"]) == ("Succeeded", None)
        with plane.database.read() as connection:
            known = instances.find(connection, f"w/{name}")
        assert (known is not None) == (type == "ComputeInstance")
