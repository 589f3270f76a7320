"""``wherry compare``: two runs side by side."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import click

from .command import Command, argument_for_run, pass_session
from .metrics import difference, flat, number, short
from .output import emit
from .run_view import (
    command_of,
    commit_of,
    duration,
    environment_of,
    pairs,
    resources_of,
    short_id,
)
from .session import Session
from .table import Column, render

_KINDS = ("added", "removed", "changed")
_LISTED = 20


@click.command(
    cls=Command,
    examples=[
        "wherry compare 3f2a9c01 77aa01bc",
        "wherry compare baseline deeper --output json",
    ],
)
@argument_for_run("first")
@argument_for_run("second")
@pass_session
def compare(session: Session, first: str, second: str) -> None:
    """Put two runs side by side.

    It shows how they ended, the arguments they were given, the metrics they logged (the last value
    of each series) and the files in which their code differs.
    """
    runs = [session.run(first), session.run(second)]
    records = [run.record for run in runs]
    found = {
        "runs": records,
        "parameters": beside(*[parameters(record) for record in records]),
        "metrics": beside(*[flat(run.get_metrics()) for run in runs]),
        "files": changed_files(session, records),
    }
    if session.output == "table" and session.query is None:
        session.write("\n".join(_sections(session, records, found)))
    else:
        emit(session, found)


def parameters(record: Mapping[str, Any]) -> Dict[str, Any]:
    """The arguments by name: ``--lr 0.1``, ``--lr=0.1``, ``--fast``; others by their place."""
    found: Dict[str, Any] = {}
    words = [str(word) for word in (record.get("spec") or {}).get("arguments") or []]
    place = 0
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-") or _is_number(word):
            place += 1
            found[f"argument {place}"] = word
        elif equals:
            found[name] = value
        elif words and (not words[0].startswith("-") or _is_number(words[0])):
            found[name] = words.pop(0)
        else:
            found[name] = "yes"
    return found


def beside(first: Mapping[str, Any], second: Mapping[str, Any]) -> Dict[str, List[Any]]:
    """Each name with both values; None where a run has none."""
    names = list(dict.fromkeys([*first, *second]))
    return {name: [first.get(name), second.get(name)] for name in names}


def changed_files(session: Session, records: Sequence[Mapping[str, Any]]) -> Dict[str, List[str]]:
    ids = [record.get("snapshot_id") for record in records]
    if not all(ids) or ids[0] == ids[1]:
        return {kind: [] for kind in _KINDS}
    return session.workspace.diff_snapshots(str(ids[0]), str(ids[1]))


def _sections(
    session: Session, records: List[Dict[str, Any]], found: Mapping[str, Any]
) -> List[str]:
    heads = [record.get("display_name") or short_id(record["id"]) for record in records]
    lines = _table(session, "RUN", heads, _summary(records))
    for title, kind, show in (("PARAMETER", "parameters", number), ("METRIC", "metrics", short)):
        rows = [
            (name, ["" if each is None else show(each) for each in both], difference(*both))
            for name, both in found[kind].items()
        ]
        if rows:
            lines += ["", *_table(session, title, heads, rows)]
    return [*lines, "", *_files(records, found["files"])]


def _summary(records: Sequence[Mapping[str, Any]]) -> List[Tuple[str, List[str], str]]:
    specs = [record.get("spec") or {} for record in records]
    facts = {
        "id": [str(record["id"]) for record in records],
        "status": [str(record["status"]) for record in records],
        "message": [str(record.get("message") or "") for record in records],
        "duration": [duration(record) for record in records],
        "experiment": [str(record["experiment"]) for record in records],
        "target": [str(record.get("target") or "") for record in records],
        "command": [command_of(spec) for spec in specs],
        "environment": [environment_of(spec) for spec in specs],
        "interpreter": [
            str((spec.get("environment") or {}).get("interpreter_path") or "") for spec in specs
        ],
        "resources": [resources_of(spec) for spec in specs],
        "tags": [pairs(record.get("tags")) for record in records],
        "commit": [commit_of(record) for record in records],
    }
    return [(name, values, "") for name, values in facts.items() if any(values)]


def _table(session: Session, title: str, heads: List[str], rows: List[Any]) -> List[str]:
    columns = [
        Column(title, lambda row: str(row[0])),
        Column(heads[0], lambda row: str(row[1][0]), wraps=True, style=_style),
        Column(heads[1], lambda row: str(row[1][1]), wraps=True, style=_style),
    ]
    if any(row[2] for row in rows):
        columns.append(Column("DIFFERENCE", lambda row: str(row[2]), right=True))
    return render(rows, columns, session)


def _style(row: Any) -> Dict[str, Any]:
    """What differs stands out."""
    return {"bold": True} if row[1][0] != row[1][1] and row[0] != "id" else {}


def _files(records: Sequence[Mapping[str, Any]], files: Mapping[str, List[str]]) -> List[str]:
    listed = [f"  {kind:<8} {path}" for kind in _KINDS for path in files[kind]]
    if not listed:
        same = records[0].get("snapshot_id") == records[1].get("snapshot_id")
        return ["files: the same" if same else "files: not known"]
    more = [f"  and {len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
    hint = f"  wherry job diff {short_id(records[0]['id'])} {short_id(records[1]['id'])} shows how"
    return ["files:", *listed[:_LISTED], *more, hint]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
