"""What travels with an attempt."""

from __future__ import annotations

import io
import json
import tarfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.planes import add_snapshot, make_plane, run_fields
from wherry.control.reconciler import Reconciler
from wherry.control.submit import submit
from wherry.drivers.base import Handle, Launch, Reach
from wherry.drivers.memory import MemoryDriver


class Keeping(MemoryDriver):
    """Remembers what it was asked to start."""

    def submit(self, launch: Launch) -> Handle:
        self.launched = launch
        return super().submit(launch)


def launched(tmp_path: Path, content: bytes) -> Launch:
    driver = Keeping()
    plane = make_plane(tmp_path / "home", {"local": driver})
    snapshot = add_snapshot(plane, {"train.py": content})
    submit(plane, "w", {"experiment": "e", "script": "train.py", "snapshot_id": snapshot}, "me")
    Reconciler(plane, "local", driver).tick()
    plane.close()
    return driver.launched


def test_a_small_snapshot_goes_along(tmp_path: Path) -> None:
    sent = launched(tmp_path, b"print(1)")
    sent_along = b64decode(json.loads(sent.files["manifest.json"])["snapshot"])
    with tarfile.open(fileobj=io.BytesIO(sent_along)) as archive:
        file = archive.extractfile("train.py")
        assert file is not None
        assert file.read() == b"print(1)"


def test_a_large_one_is_asked_for(tmp_path: Path) -> None:
    sent = launched(tmp_path, bytes(1 << 20))
    manifest = json.loads(sent.files["manifest.json"])
    assert manifest["snapshot_id"]
    assert manifest["snapshot"] == ""


class Elsewhere(Keeping):
    """One that says it is on another machine."""

    def reach(self, node: str = "") -> Reach:
        return Reach("http://127.0.0.1:7", "/n/.server.json", "/opt/python3.9")


@pytest.mark.parametrize(
    ("specification", "used"),
    [
        ({"python": {"conda": {"dependencies": ["python=3.11"]}}}, "python3"),
        ({"python": {"lock": {}}}, "python3"),
        ({"docker": {"enabled": True, "image": "a"}}, "python3"),
        ({"python": {"user_managed": True}}, "/opt/python3.9"),
    ],
)
def test_on_another_machine_a_script_runs_in_the_environment_that_is_made_there(
    tmp_path: Path, specification: dict[str, Any], used: str
) -> None:
    driver = Elsewhere()
    plane = make_plane(tmp_path / "home", {"local": driver})
    wanted = {"specification": specification}
    fields = run_fields(add_snapshot(plane, {"train.py": b""}), environment=wanted)
    submit(plane, "w", fields, "me")
    Reconciler(plane, "local", driver).tick()
    plane.close()
    manifest = json.loads(driver.launched.files["manifest.json"])
    assert manifest["argv"] == [used, "train.py"]


@pytest.mark.parametrize(
    ("python", "used"),
    [
        ({"interpreter_path": "/here/python", "implied": True}, "/opt/python3.9"),
        ({"interpreter_path": "/theirs/python"}, "/theirs/python"),
        ({}, "/opt/python3.9"),
    ],
)
def test_another_machine_has_its_own_addresses(
    tmp_path: Path, python: dict[str, Any], used: str
) -> None:
    driver = Elsewhere()
    plane = make_plane(tmp_path / "home", {"local": driver})
    fields = run_fields(add_snapshot(plane, {"train.py": b""}), environment={"python": python})
    submit(plane, "w", fields, "me")
    Reconciler(plane, "local", driver).tick()
    plane.close()
    manifest = json.loads(driver.launched.files["manifest.json"])
    assert manifest["server"] == "http://127.0.0.1:7"
    assert manifest["server_file"] == "/n/.server.json"
    assert manifest["env"]["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:7/mlflow/w"
    assert manifest["argv"][0] == used
    assert driver.launched.argv[0] == driver.launched.nursery[0] == "/opt/python3.9"
