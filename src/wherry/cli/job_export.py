"""``wherry job export``: runs as a table in a file."""

from __future__ import annotations

from typing import Any

import click

from .command import Command, pass_session
from .filters import check_filters
from .job_filters import options_for_runs, wanted
from .output import count
from .session import Session


@click.command(
    cls=Command,
    examples=[
        "wherry job export --output-file runs.csv",
        "wherry job export --output-file best.parquet --filter 'metrics.auc > 0.8'",
        "wherry job export --output-file curves.csv --experiment churn --history",
    ],
)
@click.option(
    "--output-file",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="The file; it ends in .csv or .parquet.",
)
@click.option("--history", is_flag=True, help="One row for every point of every metric.")
@options_for_runs
@pass_session
def export(session: Session, output_file: str, history: bool, **options: Any) -> None:
    """Write runs to a CSV or Parquet file, one row each.

    A row has the run's id, name, status, times, duration and target, and a column for each
    parameter, script argument, tag and metric (its last value). Parquet needs the package pyarrow.
    """
    asked = wanted(session, options)
    check_filters(session.client, asked.workspace.name, asked.filters)
    rows = asked.workspace.export(output_file, history=history, **asked.filters)
    what = "point" if history else "run"
    session.say(f"{output_file} has {count(rows, what)}")
