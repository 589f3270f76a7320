"""Files of a run on several nodes: a name belongs to the first node that has one for it.

Every node writes into folders of its own. What two of them call the same and is not the same is
kept under ``node_<rank>/`` for all but the first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlalchemy import Connection

from wherry.core.records import RunFile
from wherry.store import attempts, files

MAX_NAME_BYTES = 1024


def put_many(
    connection: Connection, run_id: str, records: Sequence[RunFile], attempt_id: str
) -> None:
    rank = attempts.get(connection, attempt_id).rank
    taken = files.others(connection, run_id, [each.path for each in records], rank)
    ours: list[RunFile] = []
    aside: list[RunFile] = []
    for each in records:
        owner, theirs = taken.get(each.path, (rank, each))
        if rank < owner:
            files.put_many(connection, run_id, _of_node(theirs, owner), owner)
        if rank <= owner:
            ours.append(each)
        elif theirs.digest != each.digest:
            aside += _of_node(each, rank)
    files.put_many(connection, run_id, [*ours, *aside], rank)


def _of_node(record: RunFile, rank: int) -> list[RunFile]:
    """None where the name becomes too long."""
    path = f"node_{rank}/{record.path}"
    fits = len(path.encode()) <= MAX_NAME_BYTES
    return [dataclasses.replace(record, path=path)] if fits else []
