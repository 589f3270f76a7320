"""``wherry job compare``, ``wherry compare`` for short: runs side by side."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import click

from ..core.script_arguments import by_name
from . import environment_diff
from .command import Command, argument_for_run, completing, pass_session
from .metrics import difference, flat, number, short
from .output import emit
from .run_view import command_of, commit_of, duration, pairs, resources_of, short_id
from .session import Session
from .sparkline import curve, draw
from .table import Column, display_width, render, terminal_width

_KINDS = ("added", "removed", "changed")
_LISTED = 20
_CURVES = 8
_POINTS = 400
_WIDTH, _WIDEST = 80, 100
_ALWAYS = ("id", "status")


@click.command(
    cls=Command,
    examples=[
        "wherry job compare 3f2a9c01 77aa01bc",
        "wherry job compare baseline deeper wider --metric loss",
        "wherry compare baseline deeper --all",
        "wherry compare baseline deeper --output json",
    ],
)
@argument_for_run("first")
@argument_for_run("second")
@argument_for_run("others", nargs=-1, required=False, metavar="[OTHERS]...")
@click.option("--all", "everything", is_flag=True, help="Also what is the same in all of them.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    shell_complete=completing("metrics"),
    help="Only this metric; may be repeated.",
)
@pass_session
def compare(
    session: Session,
    first: str,
    second: str,
    others: Tuple[str, ...],
    everything: bool,
    metrics: Tuple[str, ...],
) -> None:
    """Put runs side by side.

    It shows in what they differ: how they ended, the arguments and parameters they were given, the
    metrics they logged (the last value of each, and the curves of all), what their environments
    asked for, and the files in which their code differs from that of the first. With --output json,
    yaml or tsv all that was asked and logged is told, whether it differs or not.
    """
    runs = [session.run(text) for text in (first, second, *others)]
    logged = [_logged(session, run.id, metrics) for run in runs]
    records = [run.record for run in runs]
    specs = [record.get("spec") or {} for record in records]
    found = {
        "runs": records,
        "parameters": beside([parameters(record) for record in records]),
        "metrics": beside([_last(each) for each in logged]),
        "environment": beside([environment_diff.items(spec) for spec in specs]),
        "files": [changed_files(session, records[0], each) for each in records[1:]],
    }
    if session.output == "table" and session.query is None:
        session.write("\n".join(_sections(session, found, logged, everything)))
    elif session.output == "tsv" and session.query is None:
        emit(session, _rows(found))
    else:
        emit(session, found)


def parameters(record: Mapping[str, Any]) -> Dict[str, Any]:
    """What was logged as parameters, and the script's arguments."""
    arguments = (record.get("spec") or {}).get("arguments") or []
    return {**(record.get("params") or {}), **by_name(arguments)}


def beside(several: Sequence[Mapping[str, Any]]) -> Dict[str, List[Any]]:
    """Each name with all values; None where a run has none."""
    names = list(dict.fromkeys(name for each in several for name in each))
    return {name: [each.get(name) for each in several] for name in names}


def changed_files(
    session: Session, first: Mapping[str, Any], other: Mapping[str, Any]
) -> Dict[str, Any]:
    ids = [first.get("snapshot_id"), other.get("snapshot_id")]
    told: Dict[str, Any] = {"run": other["id"], **{kind: [] for kind in _KINDS}}
    if all(ids) and ids[0] != ids[1]:
        told.update(session.workspace.diff_snapshots(str(ids[0]), str(ids[1])))
    return told


def _logged(session: Session, run_id: str, names: Sequence[str]) -> Dict[str, Dict[str, Any]]:
    path = f"/runs/{run_id}/metrics/summary"
    found: Dict[str, Dict[str, Any]] = session.client.get(path, {"points": _POINTS})["metrics"]
    return {name: told for name, told in found.items() if not names or name in names}


def _last(logged: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """One value for each name; of a row or table each column's last."""
    return flat(
        {
            name: told.get("value") if "value" in told else told.get("last")
            for name, told in logged.items()
        }
    )


def _rows(found: Mapping[str, Any]) -> List[List[Any]]:
    rows = [
        [kind, name, *values]
        for kind in ("parameters", "metrics", "environment")
        for name, values in found[kind].items()
    ]
    return [["runs", "id", *[record["id"] for record in found["runs"]]], *rows]


def _sections(
    session: Session,
    found: Mapping[str, Any],
    logged: Sequence[Mapping[str, Mapping[str, Any]]],
    everything: bool,
) -> List[str]:
    records = found["runs"]
    heads = [record.get("display_name") or short_id(record["id"]) for record in records]
    lines = _table(session, "RUN", heads, _differing(_summary(records), everything))
    for title, kind, show in (
        ("PARAMETER", "parameters", number),
        ("METRIC", "metrics", short),
        ("ENVIRONMENT", "environment", short),
    ):
        rows = [
            (name, ["" if each is None else show(each) for each in values], _change(values))
            for name, values in _differing(found[kind], everything).items()
        ]
        if rows:
            lines += ["", *_table(session, title, heads, rows)]
        elif found[kind]:
            lines += ["", f"{kind}: the same"]
    lines += _curves(session, heads, logged)
    for record, files in zip(records[1:], found["files"]):
        if not (records[0].get("snapshot_id") or record.get("snapshot_id")):
            continue  # none of both was submitted with code
        lines += ["", *_files(records[0], record, files, alone=len(records) == 2)]
    return lines


def _differing(found: Mapping[str, List[Any]], everything: bool) -> Dict[str, List[Any]]:
    return {
        name: values
        for name, values in found.items()
        if everything or name in _ALWAYS or any(not _same(each, values[0]) for each in values)
    }


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or repr(one) == repr(other)  # NaN equals nothing


def _change(values: Sequence[Any]) -> str:
    return difference(*values) if len(values) == 2 else ""


def _summary(records: Sequence[Mapping[str, Any]]) -> Dict[str, List[Any]]:
    specs = [record.get("spec") or {} for record in records]
    facts = {
        "id": [str(record["id"]) for record in records],
        "status": [str(record["status"]) for record in records],
        "message": [str(record.get("message") or "") for record in records],
        "duration": [duration(record) for record in records],
        "experiment": [str(record["experiment"]) for record in records],
        "target": [str(record.get("target") or "") for record in records],
        "command": [command_of(spec) for spec in specs],
        "resources": [resources_of(spec) for spec in specs],
        "tags": [pairs(record.get("tags")) for record in records],
        "commit": [commit_of(record) for record in records],
    }
    return {name: values for name, values in facts.items() if any(values)}


def _table(session: Session, title: str, heads: List[str], rows: Any) -> List[str]:
    if isinstance(rows, dict):
        rows = [(name, values, "") for name, values in rows.items()]
    columns = [Column(title, lambda row: str(row[0]))]
    columns += [_column(head, place) for place, head in enumerate(heads)]
    if any(row[2] for row in rows):
        columns.append(Column("DIFFERENCE", lambda row: str(row[2]), right=True))
    return render(rows, columns, session)


def _column(head: str, place: int) -> Column:
    def style(row: Any) -> Dict[str, Any]:
        """What differs stands out."""
        return {"bold": True} if row[1][place] != row[1][0] and row[0] != "id" else {}

    return Column(head, lambda row: str(row[1][place]), wraps=True, style=style)


def _curves(
    session: Session, heads: Sequence[str], logged: Sequence[Mapping[str, Mapping[str, Any]]]
) -> List[str]:
    names = [
        name
        for name in dict.fromkeys(name for each in logged for name in each)
        if any(each.get(name, {}).get("count", 0) > 1 and "steps" in each[name] for each in logged)
    ]
    widest = max(display_width(head) for head in heads)
    width = min(terminal_width() or _WIDTH, _WIDEST) - widest - 4
    lines: List[str] = []
    for name in names[:_CURVES]:
        told = [each.get(name, {}) for each in logged]
        curves = [curve(each.get("steps") or [], each.get("values") or []) for each in told]
        values = [value for each in curves for value in each.values]
        if values:
            span = f"from {number(min(values))} to {number(max(values))}"
            lines += ["", f"{session.style(short(name), bold=True)}  {span}"]
            lines += [
                f"  {head}{' ' * (widest - display_width(head))}  {line}".rstrip()
                for head, line in zip(heads, draw(curves, width))
            ]
    if len(names) > _CURVES:
        lines += ["", f"and {len(names) - _CURVES} more curves; --metric NAME shows one"]
    return lines


def _files(
    first: Mapping[str, Any],
    other: Mapping[str, Any],
    files: Mapping[str, List[str]],
    *,
    alone: bool,
) -> List[str]:
    who = "" if alone else f" of {other.get('display_name') or short_id(other['id'])}"
    listed = [f"  {kind:<8} {path}" for kind in _KINDS for path in files[kind]]
    if not listed:
        same = first.get("snapshot_id") == other.get("snapshot_id")
        return [f"files{who}: the same" if same else f"files{who}: not known"]
    more = [f"  and {len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
    hint = f"  wherry job diff {short_id(first['id'])} {short_id(other['id'])} shows how"
    return [f"files{who}:", *listed[:_LISTED], *more, hint]
