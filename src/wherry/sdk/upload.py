"""Sends a server what it lacks of a snapshot."""

from __future__ import annotations

import json
from binascii import b2a_base64
from typing import Any, Collection, Dict, Iterable, List, Optional, Protocol, Sequence
from urllib.parse import quote

from ..core.errors import ConflictError, NotFoundError, SnapshotException
from ..core.snapshots import FileEntry
from .batch import Progress
from .hash_cache import SnapshotChangedError
from .sent_trees import SentTree
from .snapshot import Snapshot

MOST_CHANGES = 2_000
SMALL_BYTES = 2**20

_ROUNDS = 8


class Client(Protocol):
    """What an upload needs of a connection to the server. Paths are counted from the API's base."""

    def post(
        self,
        path: str,
        *,
        json: Any = None,
        data: Optional[Iterable[bytes]] = None,
        length: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Send JSON, or ``length`` bytes from ``data``, which can be iterated again after a lost
        connection; an exception out of it ends the request and is let through.
        """
        ...


def upload(
    snapshot: Snapshot, client: Client, workspace: str, *, progress: Optional[Progress] = None
) -> str:
    """Register the snapshot, send the files that the server lacks, return the id.

    Files that changed since the capture are captured anew: ``id`` and ``files`` are then those
    of what was sent. ``progress`` is called with the bytes sent and the bytes to send.
    """
    done = 0
    for _ in range(_ROUNDS):
        missing = client.post(_path(workspace), json={"files": json.loads(snapshot.text)})[
            "missing"
        ]
        if not missing:
            return snapshot.id
        done = _send(snapshot, client, missing, done, progress)
    raise SnapshotException(
        f"the server still lacks files of {snapshot.directory} after {_ROUNDS} tries",
        hint="wait until the files there stop changing, or list them in .wherryignore",
    )


def upload_changes(
    snapshot: Snapshot, client: Client, workspace: str, base: SentTree
) -> Optional[int]:
    """The same, told by how it differs from a snapshot that the server has.

    How many files differ; None where it is not worth it or the server cannot make it out.
    """
    lines, gone = base.differences(snapshot.pieces)
    if len(lines) + len(gone) > MOST_CHANGES:
        return None
    entries = [FileEntry(**json.loads(line)) for line in lines]
    contents = _small_contents(snapshot, entries)
    if contents is None:
        return None
    fields = {
        "base": base.id,
        "id": snapshot.id,
        "files": [entry.to_dict() for entry in entries],
        "removed": sorted(gone - {entry.path for entry in entries}),
        "contents": contents,
    }
    try:
        missing = client.post(_path(workspace), json=fields)["missing"]
    except (NotFoundError, ConflictError):
        return None
    return None if missing else len(lines) + len(gone)


def _small_contents(snapshot: Snapshot, entries: Sequence[FileEntry]) -> Optional[List[str]]:
    """What is small enough to travel along, as it does; None if a file is not what it was."""
    contents, left = [], SMALL_BYTES
    for entry in entries:
        if entry.link or entry.size > left:
            continue
        content = snapshot.content([entry])[1]
        if content is None:
            return None
        contents.append(b2a_base64(content, newline=False).decode("ascii"))
        left -= entry.size
    return contents


def _send(
    snapshot: Snapshot,
    client: Client,
    missing: Collection[str],
    done: int,
    progress: Optional[Progress],
) -> int:
    wanted = snapshot.wanted(missing).values()
    total = done + sum(entries[0].framed_bytes() for entries in wanted)
    for batch in snapshot.batches(missing):
        if progress is not None:
            batch.watch(progress, done, total)
        try:
            client.post("/blobs", data=batch, length=batch.length)
        except SnapshotChangedError as error:
            snapshot.capture_anew(error.path)
        else:
            done += batch.length
    return done


def _path(workspace: str) -> str:
    return f"/workspaces/{quote(workspace, safe='')}/snapshots"
