"""``wherry experiment``: named series of runs."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import click

from ..core.errors import NotFoundError
from ..core.ids import check_name
from .command import Group, completing, pass_session
from .duration import ago, show_time
from .ending import Usage
from .filters import check_filters
from .output import emit
from .run_view import pairs as shown_pairs
from .session import Session
from .table import Column


@click.group(
    cls=Group,
    examples=[
        "wherry experiment list",
        "wherry experiment update churn --tag team=x",
        "wherry job list --experiment churn --order-by 'metrics.auc desc'",
    ],
)
def experiment() -> None:
    """List, label, archive and delete experiments.

    An experiment is a named series of runs; its first run makes it.
    """


@experiment.command("list", examples=["wherry experiment list", "wherry experiment list --all"])
@click.option("-a", "--all", "everything", is_flag=True, help="Also the archived ones.")
@pass_session
def list_(session: Session, everything: bool) -> None:
    """List the experiments of the workspace."""
    items = session.client.get(_path(session), {"archived": everything})["items"]
    if not items and session.output == "table" and session.query is None:
        session.say(f"no experiments in workspace {session.workspace.name}")
        return
    emit(session, items, _columns(everything, exact=session.output != "table"))


@experiment.command(
    "show", examples=["wherry experiment show churn", "wherry experiment show churn -o json"]
)
@click.argument("name", shell_complete=completing("experiments"))
@pass_session
def show(session: Session, name: str) -> None:
    """Show one experiment and its newest runs."""
    record = _get(session, name)
    if session.output != "table" or session.query is not None:
        emit(session, record)
        return
    facts = {
        "name": name,
        "id": record["id"],
        "description": record["description"],
        "created": show_time(record["created_at"]),
        "archived": show_time(record.get("archived_at")),
        "tags": shown_pairs(record["tags"]),
    }
    session.write("\n".join(f"{key:<13}{value}" for key, value in facts.items() if value))
    runs = session.workspace.list_runs(experiment=name, limit=10).items
    if runs:
        from .run_view import list_columns, worth_showing

        session.write("")
        wanted = [each for each in list_columns() if each.title != "EXPERIMENT"]
        emit(session, runs, worth_showing(wanted, runs))


@experiment.command(
    "update",
    examples=[
        "wherry experiment update churn --tag team=x --tag data=v2",
        "wherry experiment update churn --remove-tag team --description 'the last try'",
    ],
)
@click.argument("name", shell_complete=completing("experiments"))
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@click.option("--remove-tag", "removed", multiple=True, metavar="KEY", help="Take a label off.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@pass_session
def update(
    session: Session,
    name: str,
    tags: Tuple[str, ...],
    removed: Tuple[str, ...],
    description: Optional[str],
) -> None:
    """Label and describe an experiment."""
    from .run import pairs

    changes: Dict[str, Any] = {}
    if tags:
        changes["tags"] = pairs("--tag", tags)
    if removed:
        changes["remove_tags"] = list(removed)
    if description is not None:
        changes["description"] = description
    if not changes:
        raise Usage(
            "there is nothing to change", hint="--tag, --remove-tag and --description say what"
        )
    _change(session, name, changes, f"experiment {name} updated")


@experiment.command("archive", examples=["wherry experiment archive old"])
@click.argument("name", shell_complete=completing("experiments"))
@pass_session
def archive(session: Session, name: str) -> None:
    """Hide an experiment from lists; its runs stay as they are."""
    told = f"experiment {name} archived; 'wherry experiment restore {name}' brings it back"
    _change(session, name, {"archived": True}, told)


@experiment.command("restore", examples=["wherry experiment restore old"])
@click.argument("name", shell_complete=completing("experiments"))
@pass_session
def restore(session: Session, name: str) -> None:
    """Show an archived experiment in lists again."""
    _change(session, name, {"archived": False}, f"experiment {name} restored")


@experiment.command("delete", examples=["wherry experiment delete old --yes"])
@click.argument("name", shell_complete=completing("experiments"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Remove an experiment that has no runs any more."""
    from .job import confirm

    _get(session, name)
    confirm(f"Delete experiment {name} for good?", yes)
    session.client.delete(_path(session, name))
    session.say(f"experiment {name} deleted")


def _get(session: Session, name: str) -> Dict[str, Any]:
    try:
        return dict(session.client.get(_path(session, name)))
    except NotFoundError:
        check_filters(session.client, session.workspace.name, {"experiment": name})
        raise


def _change(session: Session, name: str, changes: Mapping[str, Any], told: str) -> None:
    _get(session, name)
    record = session.client.patch(_path(session, name), changes)
    session.say(told)
    if session.asked_for_data:
        emit(session, record)


def _path(session: Session, name: str = "") -> str:
    path = f"/workspaces/{session.workspace.name}/experiments"
    return f"{path}/{check_name('experiment', name)}" if name else path


def _columns(everything: bool, *, exact: bool) -> List[Column]:
    when = show_time if exact else ago
    found = [
        Column("NAME", lambda row: str(row["name"])),
        Column("CREATED", lambda row: when(row["created_at"]), drops=2),
        Column("TAGS", lambda row: shown_pairs(row["tags"]), drops=3),
        Column("DESCRIPTION", lambda row: str(row["description"]), wraps=True, drops=1),
    ]
    if everything:
        found.insert(1, Column("ARCHIVED", lambda row: "yes" if row["archived_at"] else ""))
    return found
