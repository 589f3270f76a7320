"""What nothing refers to goes; everything else stays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.planes import add_snapshot, make_plane, run_fields
from wherry.control import files, runs
from wherry.control.garbage import collect
from wherry.control.submit import start_interactive, submit
from wherry.drivers.memory import MemoryDriver
from wherry.store import snapshots, tables

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


@pytest.mark.parametrize("again", [True, False])
def test_what_is_sent_again_counts_as_new(tmp_path: Path, again: bool) -> None:
    """Between that and the run which is made from it, the collector may come by."""
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    snapshot = add_snapshot(plane, {"train.py": b"1"})
    with plane.write() as connection:
        old = plane.now() - timedelta(days=3)
        connection.execute(tables.snapshots.update().values(created_at=old))
    if again:
        assert add_snapshot(plane, {"train.py": b"1"}) == snapshot
    collect(plane)
    with plane.database.read() as connection:
        assert (snapshot in snapshots.every_id(connection)) is again
    plane.close()
