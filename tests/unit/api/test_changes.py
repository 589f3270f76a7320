"""Snapshots told by how they differ from one that the workspace has."""

from __future__ import annotations

import base64
import hashlib
import tarfile
from io import BytesIO
from typing import Any

import pytest

from tests.planes import add_snapshot
from wherry.api.bodies import NewSnapshot
from wherry.control import snapshots
from wherry.control.plane import Plane
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.snapshots import FileEntry, snapshot_id
from wherry.core.trees import Tree
from wherry.store import workspaces


def entry(path: str, content: bytes) -> FileEntry:
    return FileEntry(path, hashlib.sha256(content).hexdigest(), len(content))


def changes(files: list[FileEntry], **more: Any) -> dict[str, Any]:
    fields = {"files": [each.to_dict() for each in files], "removed": [], "contents": []}
    return {**fields, **more}


def test_only_what_differs_is_sent(plane: Plane) -> None:
    base = add_snapshot(plane, {"train.py": b"1", "lib/a.py": b"2", "lib/b.py": b"3"})
    new, other = entry("lib/c.py", b"new"), entry("train.py", b"other")
    wanted = snapshot_id([new, other, entry("lib/a.py", b"2")])
    sent = changes([new, other], removed=["lib/b.py"], contents=[b"new", b"other"], id=wanted)
    answer = snapshots.register_changes(plane, "w", base, sent)
    assert answer == {"id": wanted, "missing": []}
    plane.recent_trees.put(wanted, Tree.of([]))  # what counts is what is on disk
    found = {each.path: each for each in snapshots.read(plane, wanted)}
    assert set(found) == {"lib/a.py", "lib/c.py", "train.py"}
    with plane.blobs.open(found["train.py"].digest) as file:
        assert file.read() == b"other"


def send(plane: Plane, base: str, files: dict[str, bytes], old: dict[str, bytes]) -> str:
    """Register ``old`` with these files put in, told by them alone."""
    wanted = snapshot_id([entry(*each) for each in {**old, **files}.items()])
    told = changes([entry(*each) for each in files.items()], contents=[*files.values()], id=wanted)
    assert snapshots.register_changes(plane, "w", base, told) == {"id": wanted, "missing": []}
    plane.recent_trees.put(wanted, Tree.of([]))
    return wanted


def contents(plane: Plane, snapshot: str) -> dict[str, bytes]:
    with tarfile.open(fileobj=BytesIO(b"".join(snapshots.archive(plane, snapshot)))) as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]


def test_a_few_changes_are_kept_in_place_of_the_list_of_files(plane: Plane) -> None:
    old = {"b": b"1", "a/x": b"2"}
    base = add_snapshot(plane, old)
    near = send(plane, base, {"b": b"3", "a/y": b"4"}, old)
    assert not plane.blobs.has(near)
    assert contents(plane, near) == {"a/x": b"2", "a/y": b"4", "b": b"3"}
    assert snapshots.diff(plane, base, near) == {"added": ["a/y"], "removed": [], "changed": ["b"]}
    everything = [each.to_dict() for each in snapshots.read(plane, near)]
    assert snapshots.register(plane, "w", everything) == {"id": near, "missing": []}


def test_changes_of_changes_are_kept_as_a_list(plane: Plane) -> None:
    old = {"a": b"1", "b": b"1"}
    base = add_snapshot(plane, old)
    near = send(plane, base, {"a": b"2"}, old)
    plane.recent_trees.put(near, Tree.of(snapshots.read(plane, near)))
    far = send(plane, near, {"b": b"2"}, {**old, "a": b"2"})
    assert plane.blobs.has(far)
    assert contents(plane, far) == {"a": b"2", "b": b"2"}


def test_many_changes_are_kept_as_a_list(plane: Plane) -> None:
    base = add_snapshot(plane, {"a": b"1"})
    far = send(plane, base, {f"{number}": b"%d" % number for number in range(201)}, {"a": b"1"})
    assert plane.blobs.has(far)
    assert len(snapshots.read(plane, far)) == 202


def test_what_is_missing_is_asked_for(plane: Plane) -> None:
    base = add_snapshot(plane, {"a": b"1"})
    new = entry("b", b"new")
    wanted = snapshot_id([entry("a", b"1"), new])
    answer = snapshots.register_changes(plane, "w", base, changes([new], id=wanted))
    assert answer == {"id": wanted, "missing": [new.digest]}
    with pytest.raises(NotFoundError):
        snapshots.read(plane, wanted)


def test_changes_that_lead_elsewhere_store_nothing(plane: Plane) -> None:
    base = add_snapshot(plane, {"a": b"1"})
    wanted = snapshot_id([entry("a", b"2")])
    with pytest.raises(ConflictError, match="do not give"):
        snapshots.register_changes(plane, "w", base, changes([], id=wanted))
    with pytest.raises(NotFoundError):
        snapshots.read(plane, wanted)


def test_a_base_of_another_workspace_is_not_known(plane: Plane) -> None:
    base = add_snapshot(plane, {"a": b"1"})
    with plane.write() as connection:
        workspaces.create(connection, "other", plane.now(), "", {})
    with pytest.raises(NotFoundError, match="has no snapshot"):
        snapshots.register_changes(plane, "other", base, changes([], id=base))


def test_paths_are_checked_as_ever(plane: Plane) -> None:
    base = add_snapshot(plane, {"a": b"1"})
    for path in ("../x", "/x", "a/b"):
        sent = changes([entry(path, b"1")], id="0" * 64)
        with pytest.raises(UserErrorException):
            snapshots.register_changes(plane, "w", base, sent)


def test_contents_travel_in_base_64() -> None:
    body = NewSnapshot.model_validate(
        {"files": [], "base": "b", "contents": [base64.b64encode(b"\0\xff").decode()]}
    )
    assert body.contents == [b"\0\xff"]
