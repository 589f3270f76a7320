"""A control plane in a folder, for tests below HTTP and of HTTP itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wherry.blobs.folder import FolderBlobStore, FolderLogStore
from wherry.control import snapshots
from wherry.control.plane import Plane
from wherry.core import snapshots as trees
from wherry.core.settings import resolve
from wherry.drivers.base import Driver
from wherry.store import tokens, workspaces
from wherry.store.database import Database
from wherry.store.migrate import migrate

TOKEN = "owner-token"


def make_plane(
    folder: Path, drivers: Mapping[str, Driver], database: Database | None = None
) -> Plane:
    folder.mkdir(exist_ok=True)
    database = database or Database(f"sqlite:///{folder / 'plane.db'}")
    migrate(database)
    plane = Plane(
        settings=resolve({"home": str(folder), "allowed_hosts": "testserver"}, {}),
        database=database,
        blobs=FolderBlobStore(folder / "blobs"),
        logs=FolderLogStore(folder / "logs"),
        drivers=drivers,
        secret=b"secret",
        url="http://127.0.0.1:1",
    )
    with database.write() as connection:
        tokens.ensure(connection, "owner", TOKEN, plane.now())
        if workspaces.find(connection, "w") is None:
            workspaces.create(connection, "w", plane.now(), "", {})
    return plane


def add_snapshot(plane: Plane, contents: Mapping[str, bytes], workspace: str = "w") -> str:
    """A registered snapshot with these files."""
    entries = []
    for path, data in contents.items():
        blob = plane.blobs.put([data])
        entries.append(trees.FileEntry(path, blob.digest, blob.size).to_dict())
    return str(snapshots.register(plane, workspace, entries)["id"])


def run_fields(snapshot: str, **fields: Any) -> dict[str, Any]:
    return {"experiment": "e", "script": "train.py", "snapshot_id": snapshot, **fields}
