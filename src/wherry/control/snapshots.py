"""Snapshots: registered once their files are here, handed out as archives."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wherry.core import snapshots as trees
from wherry.core.errors import NotFoundError
from wherry.store import snapshots, workspaces

from .plane import Plane

_BLOCK = 1 << 20
_SMALL = 256 << 10


def register(
    plane: Plane, workspace_name: str, files: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Record the tree, or say which contents are still missing."""
    entries = trees.parse_files(files)
    snapshot_id = trees.snapshot_id(entries)
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        known = snapshots.has(connection, workspace.id, snapshot_id)
    if known and plane.blobs.has(snapshot_id):
        return {"id": snapshot_id, "missing": []}
    wanted = {entry.digest for entry in entries if entry.digest}
    missing = sorted(digest for digest in wanted if not plane.blobs.has(digest))
    if missing:
        return {"id": snapshot_id, "missing": missing}
    plane.blobs.put([trees.canonical_json(entries).encode("ascii")], expected=snapshot_id)
    with plane.write() as connection:
        size = sum(entry.size for entry in entries)
        snapshots.add(connection, workspace.id, snapshot_id, len(entries), size, plane.now())
    return {"id": snapshot_id, "missing": []}


def read(plane: Plane, snapshot_id: str) -> list[trees.FileEntry]:
    with plane.database.read() as connection:
        if not snapshots.workspaces_of(connection, snapshot_id):
            raise NotFoundError(f"there is no snapshot {snapshot_id!r}")
    with plane.blobs.open(snapshot_id) as file:
        return trees.parse_files(json.load(file))


def paths(plane: Plane, snapshot_id: str) -> frozenset[str]:
    return plane.recent_paths.get(
        snapshot_id, lambda: frozenset(entry.path for entry in read(plane, snapshot_id))
    )


def small_archive(plane: Plane, snapshot_id: str) -> bytes | None:
    """The tree as a tar if it is small enough to travel with a launch."""

    def make() -> bytes | None:
        entries = read(plane, snapshot_id)
        size = sum(entry.size for entry in entries) + len(entries) * 2 * tarfile.BLOCKSIZE
        return b"".join(archive(plane, snapshot_id)) if size <= _SMALL else None

    return plane.recent_archives.get(snapshot_id, make)


def archive(plane: Plane, snapshot_id: str) -> Iterator[bytes]:
    """The tree as an uncompressed tar, piece by piece."""
    entries = read(plane, snapshot_id)

    def pieces() -> Iterator[bytes]:
        for entry in entries:
            yield _header(entry)
            if not entry.link:
                with plane.blobs.open(entry.digest) as file:
                    yield from iter(lambda: file.read(_BLOCK), b"")
                yield bytes(-entry.size % tarfile.BLOCKSIZE)
        yield bytes(2 * tarfile.BLOCKSIZE)

    return _gathered(pieces())


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


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces joined: a thousand small files are a few writes."""
    buffer = io.BytesIO()
    for piece in pieces:
        buffer.write(piece)
        if buffer.tell() >= _BLOCK:
            yield buffer.getvalue()
            buffer = io.BytesIO()
    yield buffer.getvalue()
