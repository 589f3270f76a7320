"""What nothing refers to goes; everything else stays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.planes import add_snapshot, make_plane, run_fields
from wherry.control import files, runs
from wherry.control.garbage import collect
from wherry.control.submit import start_interactive, submit
from wherry.drivers.memory import MemoryDriver

NOW = timedelta(seconds=-60)  # spares nothing


def test_only_what_is_unused_is_removed(tmp_path: Path) -> None:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    used = add_snapshot(plane, {"train.py": b"used"})
    add_snapshot(plane, {"train.py": b"unused"})
    submit(plane, "w", run_fields(used), "me")
    kept, gone = (start_interactive(plane, "w", {"experiment": "e"}, "me") for _ in range(2))
    files.put(plane, kept.id, "outputs/a", [b"kept"])
    files.put(plane, gone.id, "outputs/a", [b"gone"])
    files.put(plane, gone.id, "outputs/b", [b"used"])  # the same bytes as a snapshot's file
    runs.end(plane, gone.id, "Completed", None)
    runs.remove(plane, gone.id)
    assert collect(plane) == 0  # all of it is young
    assert collect(plane, spared=NOW) == 3  # 'gone', 'unused' and the list of its snapshot
    left = set()
    for digest in plane.blobs.digests():
        with plane.blobs.open(digest) as file:
            left.add(file.read())
    assert {b"used", b"kept"} <= left
    assert len(left) == 3
    assert collect(plane, spared=NOW) == 0
    plane.close()
