"""``wherry job``: everything that can be done with runs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import click

from .command import Group, argument_for_run, completing, pass_session, whole_number_option
from .compare import compare
from .ending import Failure, Usage
from .job_create import create
from .job_diff import diff
from .job_download import download
from .job_export import export
from .job_filters import columns_of, options_for_runs, wanted
from .output import emit
from .ps import newest
from .ps import show as show_list
from .run_view import evidence, facts
from .session import Session


@click.group(
    cls=Group,
    examples=[
        "wherry job create -f job.yml --stream",
        "wherry job show 3f2a9c01",
        "wherry job list --order-by 'metrics.auc desc'",
        "wherry job cancel 3f2a9c01",
    ],
)
def job() -> None:
    """Create, find, compare, cancel, download and delete runs.

    A run may be named by its id, a beginning of it that no other run has, its last eight
    characters, or the name that it was given. A whole id is found in any workspace.
    """


job.add_command(create)


@job.command(
    "list",
    examples=[
        "wherry job list",
        "wherry job list --order-by 'metrics.auc desc' --limit 10",
        "wherry job list --filter \"metrics.auc > 0.8 and tags.team = 'x'\"",
        "wherry job list --tag data=v2 --status Completed --limit 0",
        "wherry job list --archived --output json",
    ],
)
@options_for_runs
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    shell_complete=completing("metrics"),
    help="Show the last value of this metric; may be repeated.",
)
@whole_number_option("-n", "--limit", help="At most so many; 0 for all.  [default: 50]")
@pass_session
def list_(session: Session, metrics: Tuple[str, ...], limit: Optional[int], **options: Any) -> None:
    """List runs, filtered and in any order.

    Metrics, parameters and tags that the filter or the order speaks of are shown.
    """
    asked = wanted(session, options)
    names = [*asked.names, *[("metrics", name) for name in metrics]]
    filters = dict(asked.filters)
    if any(kind == "metrics" for kind, _ in names):
        filters["include"] = ["metrics"]
    runs, more = newest(session, asked.workspace, 50 if limit is None else limit, filters)
    columns = columns_of(list(dict.fromkeys(names)))
    show_list(session, runs, untold=more and limit is None, logged=columns)


@job.command(
    "show",
    examples=[
        "wherry job show 3f2a9c01",
        "wherry job show baseline --output json",
        "wherry job show 3f2a9c01 --query status --output tsv",
    ],
)
@argument_for_run(required=False)
@pass_session
def show(session: Session, run_id: Optional[str]) -> None:
    """Show one run: how it is, what it was asked to do, what it logged and left.

    Without an id it is the newest run.
    """
    run = session.run(run_id)
    record = run.record
    if session.output != "table" or session.query is not None:
        emit(session, record)
        return
    lines = [f"{name:<13}{value}" for name, value in facts(record)]
    lines += evidence(session, record, tail=True)
    metrics = run.get_metrics()
    if metrics:
        from .metrics import short, summary

        told = [(short(name), summary(metrics[name])) for name in metrics]
        lines += ["", "metrics:", *_indented(told)]
    lines += _files(run.list_files())
    session.write("\n".join(lines))


@job.command("stream", examples=["wherry job stream 3f2a9c01"])
@argument_for_run()
@pass_session
def stream(session: Session, run_id: str) -> None:
    """Show a run's output from its beginning to its end; the exit code is that of the run."""
    from . import submit

    submit.watch(session, session.run(run_id))


@job.command(
    "cancel", examples=["wherry job cancel 3f2a9c01", "wherry job cancel --wait baseline second"]
)
@argument_for_run("run_ids", nargs=-1, required=True, metavar="RUN_ID...")
@click.option("--wait", is_flag=True, help="Return when it has ended.")
@pass_session
def cancel(session: Session, run_ids: Tuple[str, ...], wait: bool) -> None:
    """End runs: their processes are asked to stop and, after a grace, are killed."""
    runs = session.runs(list(run_ids))
    for run in runs:
        run.cancel()
    records = [run.record for run in runs]
    if wait:
        from .follow import ended

        records = [ended(session, run) for run in runs]
    for record in records:
        session.say(_canceled(record))
    _emit_changed(session, records)


@job.command("archive", examples=["wherry job archive 3f2a9c01 77aa01bc"])
@argument_for_run("run_ids", nargs=-1, required=True, metavar="RUN_ID...")
@pass_session
def archive(session: Session, run_ids: Tuple[str, ...]) -> None:
    """Hide runs from lists; nothing of them is lost."""
    runs = session.runs(list(run_ids))
    for run in runs:
        run.archive()
        session.say(f"run {run.id} archived; 'wherry job restore' brings it back")
    _emit_changed(session, [run.record for run in runs])


@job.command("restore", examples=["wherry job restore 3f2a9c01"])
@argument_for_run("run_ids", nargs=-1, required=True, metavar="RUN_ID...")
@pass_session
def restore(session: Session, run_ids: Tuple[str, ...]) -> None:
    """Show archived runs in lists again."""
    runs = session.runs(list(run_ids))
    for run in runs:
        run.unarchive()
        session.say(f"run {run.id} restored")
    _emit_changed(session, [run.record for run in runs])


@job.command(
    "delete", examples=["wherry job delete 3f2a9c01", "wherry job delete --yes old-1 old-2"]
)
@argument_for_run("run_ids", nargs=-1, required=True, metavar="RUN_ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, run_ids: Tuple[str, ...], yes: bool) -> None:
    """Remove runs for good, with their children, logs, metrics and files."""
    runs = session.runs(list(run_ids))
    what = runs[0].id if len(runs) == 1 else f"{len(runs)} runs"
    confirm(f"Delete {what} for good?", yes)
    for run in runs:
        run.delete()
        session.say(f"run {run.id} deleted")


for _command in (download, diff, compare, export):
    job.add_command(_command)


def confirm(question: str, yes: bool) -> None:
    """Ask where someone can answer; elsewhere --yes must have been said."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise Usage(
            f"nobody is there to answer {question!r}", hint="--yes says so; it cannot be undone"
        )
    if not click.confirm(question, err=True):
        raise Failure("nothing was deleted")


def _emit_changed(session: Session, records: List[Dict[str, Any]]) -> None:
    if session.asked_for_data:
        emit(session, records[0] if len(records) == 1 else records)


def _canceled(record: Dict[str, Any]) -> str:
    status = record["status"]
    if status in ("Completed", "Failed"):
        return f"run {record['id']} had ended already: {status}"
    return f"run {record['id']}: {'canceled' if status == 'Canceled' else 'cancel requested'}"


def _files(files: List[Dict[str, Any]]) -> List[str]:
    from ..core.sizes import format_bytes

    if not files:
        return []
    shown = [(file["path"], format_bytes(file["size"])) for file in files[:20]]
    more = [f"  and {len(files) - 20} more"] if len(files) > 20 else []
    return ["", "files:", *_indented(shown), *more]


def _indented(pairs: List[Tuple[str, str]]) -> List[str]:
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in pairs]
