"""What nothing refers to goes; everything else stays."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path

import pytest

from tests.planes import add_snapshot, make_plane, run_fields
from wherry.control import files, runs
from wherry.control import snapshots as control_snapshots
from wherry.control.garbage import collect
from wherry.control.reconciler import Reconciler
from wherry.control.submit import start_interactive, submit
from wherry.core.snapshots import FileEntry, snapshot_id
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
        assert bool(snapshots.ways_to(connection, snapshot)) is again
    plane.close()


def test_a_snapshot_keeps_the_one_it_is_told_by(tmp_path: Path) -> None:
    """Its list of files and their contents, though the workspace has it no longer."""
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    base = add_snapshot(plane, {"train.py": b"1", "other": b"2"})
    digest = hashlib.sha256(b"new").hexdigest()
    entries = [FileEntry("other", hashlib.sha256(b"2").hexdigest(), 1)]
    new = FileEntry("train.py", digest, 3)
    near = snapshot_id([*entries, new])
    told = {"id": near, "files": [new.to_dict()], "removed": [], "contents": [b"new"]}
    control_snapshots.register_changes(plane, "w", base, told)
    run, _ = submit(plane, "w", run_fields(near), "me")
    collect(plane, spared=NOW)
    with plane.database.read() as connection:
        assert not snapshots.ways_to(connection, base)
    assert control_snapshots.read(plane, near) == [*entries, new]
    assert b"new" in b"".join(control_snapshots.archive(plane, near))
    runs.cancel(plane, run.id)
    Reconciler(plane, "local", plane.drivers["local"]).tick()
    runs.remove(plane, run.id)
    collect(plane, spared=NOW)
    assert list(plane.blobs.digests()) == []
    plane.close()
