"""Snapshots: registered once their files are here, handed out as archives."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from wherry.core import snapshots as trees
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.records import Workspace
from wherry.core.trees import Tree, tree_id
from wherry.store import snapshots, workspaces

from .pieces import gathered
from .plane import Plane

_BLOCK = 1 << 20
_SMALL = 256 << 10
_FEW = 200
_FRESH = timedelta(hours=1)  # much less than ``garbage.SPARED``


def register(plane: Plane, workspace_name: str, files: object) -> dict[str, Any]:
    """Record the tree, or say which contents are still missing."""
    entries = trees.parse_files(files)
    tree = Tree.of(entries)
    snapshot_id = tree_id(tree)
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        found = snapshots.find(connection, workspace.id, snapshot_id)
    there = found is not None and plane.blobs.has(found.list_id)
    if found and there and _renewed(plane, workspace, snapshot_id, found.since):
        return {"id": snapshot_id, "missing": []}
    missing = _missing(plane, entries)
    if missing:
        return {"id": snapshot_id, "missing": missing}
    plane.blobs.put(tree.content(), expected=snapshot_id)
    with plane.write() as connection:
        _add(plane, connection, workspace, snapshot_id, tree)
    plane.recent_trees.put(snapshot_id, tree)
    return {"id": snapshot_id, "missing": []}


def _renewed(plane: Plane, workspace: Workspace, snapshot_id: str, since: datetime) -> bool:
    """Whether it is still there, and stays: whoever sends it again is about to use it."""
    now = plane.now()
    if now - since < _FRESH:
        return True
    with plane.write() as connection:
        return snapshots.renew(connection, workspace.id, snapshot_id, now)


def register_changes(
    plane: Plane, workspace_name: str, base_id: str, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """The same for a tree that is told by how it differs from one that the workspace has.

    ``changes`` holds the ``id`` that must come of it, the ``files`` that are new or others, the
    paths ``removed``, and some ``contents``.
    """
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        base = snapshots.find(connection, workspace.id, base_id)
    if base is None:
        raise _no_base(workspace, base_id)
    entries = trees.parse_files(changes["files"])
    tree = read_tree(plane, base_id).changed(entries, changes["removed"])
    snapshot_id: str = changes["id"]
    if tree_id(tree) != snapshot_id:
        raise ConflictError(
            f"these changes of snapshot {base_id} do not give {snapshot_id}",
            hint="send all files of the snapshot",
        )
    contents: list[bytes] = changes["contents"]
    sent = {hashlib.sha256(content).hexdigest(): len(content) for content in contents}
    for entry in entries:
        _check_size(entry, sent.get(entry.digest, entry.size))
    missing = _missing(plane, [entry for entry in entries if entry.digest not in sent])
    if contents:
        plane.blobs.put_many([(None, [content]) for content in contents])
    if missing:
        return {"id": snapshot_id, "missing": missing}
    difference = _difference(base_id, entries, changes["removed"]) if base.whole else None
    if difference is None:
        plane.blobs.put(tree.content(), expected=snapshot_id)
    with plane.write() as connection:
        # Once more: what only the base refers to may have been cleared away since.
        if not snapshots.has(connection, workspace.id, base_id, lock=True):
            raise _no_base(workspace, base_id)
        _add(plane, connection, workspace, snapshot_id, tree, difference)
    plane.recent_trees.put(snapshot_id, tree)
    return {"id": snapshot_id, "missing": []}


def _difference(
    base_id: str, entries: Sequence[trees.FileEntry], removed: Collection[str]
) -> snapshots.Difference | None:
    """As it is kept in place of the whole list; None where the list is worth its bytes."""
    if len(entries) + len(removed) > _FEW:
        return None
    return snapshots.Difference(base_id, [entry.to_dict() for entry in entries], [*removed])


def _missing(plane: Plane, entries: Iterable[trees.FileEntry]) -> list[str]:
    """The digests of contents that are not here; those that are have the sizes that are told."""
    missing = []
    for digest, entry in {entry.digest: entry for entry in entries if entry.digest}.items():
        size = plane.blobs.size(digest)
        if size is None:
            missing.append(digest)
        else:
            _check_size(entry, size)
    return sorted(missing)


def _check_size(entry: trees.FileEntry, size: int) -> None:
    if entry.size != size:  # an archive's parts would be taken for something else
        raise UserErrorException(
            f"the file {entry.path!r} of the snapshot has {size} bytes, not {entry.size}"
        )


def _no_base(workspace: Workspace, base_id: str) -> NotFoundError:
    return NotFoundError(f"workspace {workspace.name!r} has no snapshot {base_id!r}")


def _add(
    plane: Plane,
    connection: Connection,
    workspace: Workspace,
    snapshot_id: str,
    tree: Tree,
    difference: snapshots.Difference | None = None,
) -> None:
    now = plane.now()
    snapshots.add(connection, workspace.id, snapshot_id, len(tree), tree.size, now, difference)


def read(plane: Plane, snapshot_id: str) -> list[trees.FileEntry]:
    with plane.database.read() as connection:
        ways = snapshots.ways_to(connection, snapshot_id)
    if not ways:
        raise NotFoundError(f"there is no snapshot {snapshot_id!r}")
    if None in ways:
        return _listed(plane, snapshot_id)
    return _applied(plane, next(way for way in ways if way is not None))


def _listed(plane: Plane, list_id: str) -> list[trees.FileEntry]:
    with plane.blobs.open(list_id) as file:
        return trees.parse_files(json.load(file))


def _applied(plane: Plane, difference: snapshots.Difference) -> list[trees.FileEntry]:
    files = {entry.path: entry for entry in _listed(plane, difference.base_id)}
    for path in difference.removed:
        files.pop(path, None)
    for entry in trees.parse_files(difference.files):
        files[entry.path] = entry
    return sorted(files.values())


def read_tree(plane: Plane, snapshot_id: str) -> Tree:
    return plane.recent_trees.get(snapshot_id, lambda: Tree.of(read(plane, snapshot_id)))


def small_archive(plane: Plane, snapshot_id: str) -> bytes | None:
    """The tree as a tar if it is small enough to travel with a launch."""

    def make() -> bytes | None:
        tree = read_tree(plane, snapshot_id)
        size = tree.size + len(tree) * 2 * tarfile.BLOCKSIZE
        return b"".join(archive(plane, snapshot_id)) if size <= _SMALL else None

    return plane.recent_archives.get(snapshot_id, make)


def archive(plane: Plane, snapshot_id: str) -> Iterator[bytes]:
    """The tree as an uncompressed tar, piece by piece."""
    entries = read(plane, snapshot_id)

    def pieces() -> Iterator[bytes]:
        files = plane.blobs.open_many(entry.digest for entry in entries if not entry.link)
        for entry in entries:
            yield _header(entry)
            if not entry.link:
                with next(files) as file:
                    yield from iter(partial(file.read, _BLOCK), b"")
                yield bytes(-entry.size % tarfile.BLOCKSIZE)
        yield bytes(2 * tarfile.BLOCKSIZE)

    return gathered(pieces())


def diff(plane: Plane, snapshot_id: str, other_id: str) -> dict[str, list[str]]:
    return trees.diff(read(plane, snapshot_id), read(plane, other_id))._asdict()


def _header(entry: trees.FileEntry) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.mode = entry.mode
    if not entry.link:
        info.size = entry.size
    else:
        info.type = tarfile.SYMTYPE
        info.linkname = entry.link
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
