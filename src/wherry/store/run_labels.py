"""Tags and properties of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from wherry.core.errors import ConflictError

from .database import batches
from .prepared import Prepared
from .tables import labels

TAG, PROPERTY, PARAM = "tag", "property", "param"
_LASTING = {PROPERTY: "property", PARAM: "parameter"}

_LABELS = select(labels).where(labels.c.run_seq.in_(bindparam("seqs", expanding=True)))
_LABELS_OF_ONE = Prepared(select(labels).where(labels.c.run_seq == bindparam("seq")))
_ADD_LABELS = Prepared(insert(labels))


def add_many(
    connection: Connection,
    seqs: Iterable[int],
    labelled: Iterable[Mapping[str, Mapping[str, str]]],
) -> None:
    """Of each run its labels, by kind."""
    found = [
        {"run_seq": seq, "kind": kind, "key": key, "value": value}
        for seq, kinds in zip(seqs, labelled, strict=True)
        for kind, values in kinds.items()
        for key, value in values.items()
    ]
    if found:
        _ADD_LABELS.change_many(connection, found)


def remove(connection: Connection, seq: int) -> None:
    connection.execute(delete(labels).where(labels.c.run_seq == seq))


def change(
    connection: Connection,
    row: Row[Any],
    kind: str,
    changes: Mapping[str, str],
    removed: Iterable[str] = (),
) -> None:
    """Tags may change; a property or parameter, once set, stays."""
    keys = [*changes, *removed]
    if not keys:
        return
    present = of(connection, [row.seq]).get((row.seq, kind), {})
    gone = [key for key in keys if key in present]
    if kind in _LASTING:
        for key, value in changes.items():
            if key in present and present[key] != value:
                raise ConflictError(
                    f"{_LASTING[kind]} {key!r} of run {row.id} is {present[key]!r} already",
                    hint="it cannot be changed; use a tag",
                )
        changes = {key: value for key, value in changes.items() if key not in present}
    else:
        mine = delete(labels).where(labels.c.run_seq == row.seq, labels.c.kind == kind)
        for batch in batches(gone):
            connection.execute(mine.where(labels.c.key.in_(batch)))
    add_many(connection, [row.seq], [{kind: changes}])


def of(connection: Connection, seqs: Sequence[int]) -> dict[tuple[int, str], dict[str, str]]:
    """Of each run and kind, by name. Sorted here: asked for it, SQLite reads a whole index."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for row in sorted(_rows(connection, seqs), key=lambda row: row.key):
        found.setdefault((row.run_seq, row.kind), {})[row.key] = row.value
    return found


def _rows(connection: Connection, seqs: Sequence[int]) -> Iterator[Row[Any]]:
    if len(seqs) == 1:
        yield from _LABELS_OF_ONE.rows(connection, {"seq": seqs[0]})
        return
    for batch in batches(seqs):
        yield from connection.execute(_LABELS, {"seqs": batch})
