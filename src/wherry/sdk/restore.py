"""A snapshot brought back as a folder."""

from __future__ import annotations

import os
import shutil

from ..core.errors import SnapshotException, UserErrorException
from ..runner.workspace import SetupError, unpack
from .client import Client, quote


def restore(client: Client, snapshot_id: str, folder: str) -> str:
    """Unpack the snapshot into the folder, which must be empty or not be there; its path."""
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UserErrorException(
            f"{folder!r} exists and is not an empty folder",
            hint="name a new folder: path= in Python, --path on the command line",
        )
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, f".wherry-{os.getpid()}")
    try:
        with client.open("GET", f"/snapshots/{quote(snapshot_id)}/archive") as response:
            unpack(response.chunks(), part)
        for name in os.listdir(part):
            os.rename(os.path.join(part, name), os.path.join(folder, name))
    except SetupError as error:
        raise SnapshotException(f"snapshot {snapshot_id} cannot be restored: {error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
