"""A machine that is not this one has a say about its own attempts alone."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from tests.planes import add_snapshot, make_plane, run_fields
from tests.unit.control.test_standby import Handing
from wherry.control import run_logs, runs, submit
from wherry.control.deliveries import receive
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.drivers.memory import MemoryDriver
from wherry.store import attempts


def running(plane: Plane) -> tuple[str, str]:
    """A run on this machine, and its attempt."""
    snapshot = add_snapshot(plane, {"train.py": b""})
    run_id = submit.submit(plane, "w", run_fields(snapshot), "owner")[0].id
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    with plane.database.read() as connection:
        return run_id, attempts.of_run(connection, run_id)[0].id


def test_no_machine_ends_the_attempt_of_another(tmp_path: Path) -> None:
    elsewhere = Handing()
    plane = make_plane(tmp_path, {"local": MemoryDriver(), "w/vm": elsewhere})
    run_id, attempt_id = running(plane)
    said = {"run_id": run_id, "attempt_id": attempt_id, "exit": {"exit_code": 0}}
    elsewhere.handed = [{**said, "log": b64encode(b"forged").decode()}]
    Reconciler(plane, "w/vm", elsewhere).tick()
    assert runs.show(plane, run_id).status not in ("Completed", "Failed")
    assert plane.logs.size(run_logs.key(run_id, attempt_id)) == 0


def test_nothing_that_a_machine_says_is_too_odd(tmp_path: Path) -> None:
    elsewhere = Handing()
    plane = make_plane(tmp_path, {"local": MemoryDriver(), "w/vm": elsewhere})
    odd: list[Any] = [None, 5, [], "x", {}, {"attempt_id": []}, {"attempt_id": None, "run_id": {}}]
    elsewhere.handed = odd
    assert receive(plane, "w/vm", elsewhere) == []
