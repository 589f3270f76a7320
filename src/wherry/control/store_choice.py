"""A server that is told to use another blob store has its contents there, or does not start."""

from __future__ import annotations

import logging
from pathlib import Path

from wherry.blobs.base import BlobStore
from wherry.core.errors import ServerUnavailableError, WherryError
from wherry.store import files, snapshots, wheels
from wherry.store.database import Database

log = logging.getLogger(__name__)

_FOLDER = "folder"
_LOOKED_FOR = 50


def check_store(database: Database, blobs: BlobStore, address: str, home: Path) -> None:
    """Looks, once for each change of the setting, for some of what runs refer to."""
    note, now = home / "blobs.store", address or _FOLDER
    before = note.read_text().strip() if note.exists() else _FOLDER
    if now == before:
        return
    try:
        wanted = _some(database)
        missing = [digest for digest in wanted if not blobs.has(digest)]
    except ServerUnavailableError as error:
        log.warning("%s", error.message)
        return
    if missing:
        raise WherryError(
            f"{len(missing)} of {len(wanted)} contents that were looked for are not in "
            f"{_told(now)}, which takes the place of {_told(before)}",
            hint="copy them there first, as docs/concepts/files.md shows, or set blobs back",
        )
    note.write_text(now + "\n")


def _some(database: Database) -> list[str]:
    with database.read() as connection:
        lists, contents = snapshots.used(connection)
        every = sorted(files.digests(connection) | wheels.digests(connection) | lists | contents)
    return every[:: max(1, len(every) // _LOOKED_FOR)]


def _told(store: str) -> str:
    return "the home's own folder" if store == _FOLDER else store
