"""``wherry ps``: the newest runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from ..core.lifecycle import CANCEL_REQUESTED, Status
from .command import Command, completing, pass_session, whole_number_option
from .filters import check_filters
from .options import OneOf
from .output import emit
from .run_view import list_columns, worth_showing
from .session import Session
from .table import Column

if TYPE_CHECKING:
    from ..sdk.workspace import Workspace

PAGE = 200
STATUSES = OneOf([each.value for each in Status] + [CANCEL_REQUESTED])


@click.command(
    cls=Command,
    examples=[
        "wherry ps",
        "wherry ps --status Running --status Queued",
        "wherry ps --experiment churn -n 5",
        "wherry ps --query \"[?status=='Failed'].id\" --output tsv",
    ],
)
@click.option("-a", "--all", "everything", is_flag=True, help="Also archived runs and child runs.")
@click.option(
    "--experiment",
    metavar="NAME",
    shell_complete=completing("experiments"),
    help="Only runs of this experiment.",
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=STATUSES,
    metavar="STATUS",
    help="Only runs with this status, such as Running or Failed; may be repeated.",
)
@whole_number_option("-n", "--limit", help="At most so many; 0 for all.  [default: 20]")
@pass_session
def ps(
    session: Session,
    everything: bool,
    experiment: Optional[str],
    statuses: Tuple[str, ...],
    limit: Optional[int],
) -> None:
    """List the newest runs: what they wait for, how they ended.

    A run's id may be shortened wherever one is asked for: to a beginning that no other run has, to
    its last eight characters, or to the name that it was given.
    """
    filters: Dict[str, Any] = {"experiment": experiment, "status": list(statuses)}
    if everything:
        filters.update(archived="all", include_children=True)
    runs, more = newest(session, session.workspace, 20 if limit is None else limit, filters)
    show(session, runs, untold=more and limit is None, archived=everything)


def newest(
    session: Session, workspace: Workspace, limit: int, filters: Dict[str, Any]
) -> Tuple[List[Any], bool]:
    """Records of at most ``limit`` runs (0: all), and whether there are more.

    That there are none because a name was mistyped is an error.
    """
    found: List[Any] = []
    cursor: Optional[str] = None
    while True:
        wanted = min(limit - len(found), PAGE) if limit else PAGE
        page = workspace.list_runs(limit=wanted, cursor=cursor, **filters)
        found += page.items
        cursor = page.next_cursor
        if not found:
            check_filters(session.client, workspace.name, filters)
        if not cursor or (limit and len(found) >= limit):
            return found, bool(cursor)


def show(
    session: Session,
    runs: List[Any],
    *,
    untold: bool,
    archived: bool = False,
    logged: Sequence[Column] = (),
) -> None:
    """``untold``: there are more, and nobody asked for just so many. ``logged`` are columns of what
    was asked for by name.
    """
    columns = list_columns(archived=archived, exact=session.output != "table")
    place = [column.title for column in columns].index("SUBMITTED")
    columns[place:place] = logged
    if session.output == "table" and session.query is None:
        if not runs:
            _tell_of_none(session)
            return
        columns = worth_showing(columns, runs)
    emit(session, runs, columns)
    if untold:
        session.say("there are more; --limit shows them")


def _tell_of_none(session: Session) -> None:
    if session.quiet:
        return
    hidden = session.workspace.list_runs(limit=1, archived="all").items
    session.say(f"no {'such ' if hidden else ''}runs in workspace {session.workspace.name}")
    others = "" if hidden else session.elsewhere()
    if others:
        session.say(others)
