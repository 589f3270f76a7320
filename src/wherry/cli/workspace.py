"""``wherry workspace``: what holds experiments and runs."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import click

from ..core.errors import ConflictError
from ..core.ids import check_name
from .command import Group, completing, pass_session
from .duration import show_time
from .output import emit
from .run_view import pairs as shown_pairs
from .session import Session
from .table import Column


@click.group(
    cls=Group,
    examples=[
        "wherry workspace create churn",
        "wherry workspace use churn",
        "wherry workspace list",
    ],
)
def workspace() -> None:
    """Make, choose and remove workspaces.

    A workspace holds experiments and their runs. There is always one called default.
    """


@workspace.command(
    "create", examples=["wherry workspace create churn", "wherry workspace create churn --exist-ok"]
)
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@click.option("--exist-ok", is_flag=True, help="Be content if it is there already.")
@pass_session
def create(
    session: Session, name: str, description: str, tags: Tuple[str, ...], exist_ok: bool
) -> None:
    """Make a workspace."""
    from .run import pairs

    body = {
        "name": name,
        "description": description,
        "tags": pairs("--tag", tags),
        "exist_ok": exist_ok,
    }
    check_name("workspace", name)
    try:
        record = session.client.post("/workspaces", json=body)
    except ConflictError as error:
        hint = f"--exist-ok takes it as it is; wherry workspace use {name} works in it"
        raise ConflictError(error.message, hint=hint) from None
    session.say(f"workspace {name} is there; 'wherry workspace use {name}' makes it the one in use")
    _emit_changed(session, record)


@workspace.command("list", examples=["wherry workspace list", "wherry workspace list -o json"])
@pass_session
def list_(session: Session) -> None:
    """List the workspaces of the server; the one in use is marked."""
    items = session.client.get("/workspaces")["items"]
    emit(session, items, _columns(session.choice.name))


@workspace.command("show", examples=["wherry workspace show", "wherry workspace show churn"])
@click.argument("name", required=False, shell_complete=completing("workspaces"))
@pass_session
def show(session: Session, name: Optional[str]) -> None:
    """Show one workspace, by default the one in use."""
    emit(session, session.client.get(_path(name or session.choice.name)))


@workspace.command("use", examples=["wherry workspace use churn"])
@click.argument("name", shell_complete=completing("workspaces"))
@pass_session
def use(session: Session, name: str) -> None:
    """Work in this workspace from now on, unless an option or WHERRY_WORKSPACE says otherwise."""
    from ..core.settings import ENV
    from .settings_file import change

    session.client.get(_path(name))
    change("workspace", name)
    session.say(f"workspace {name} is the one in use")
    if session.settings.origin("workspace") == ENV:
        session.say(f"but WHERRY_WORKSPACE says {session.settings.workspace}, and that comes first")


@workspace.command("delete", examples=["wherry workspace delete old --yes"])
@click.argument("name", shell_complete=completing("workspaces"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Remove a workspace for good, with all of its runs."""
    from .job import confirm

    path = _path(name)
    session.client.get(path)
    confirm(f"Delete workspace {name} with all of its runs for good?", yes)
    session.client.delete(path)
    session.say(f"workspace {name} deleted")


def _path(name: str) -> str:
    return f"/workspaces/{check_name('workspace', name)}"


def _columns(used: str) -> List[Column]:
    return [
        Column("", lambda row: "*" if row["name"] == used else ""),
        Column("NAME", lambda row: str(row["name"])),
        Column("CREATED", lambda row: show_time(row["created_at"]), drops=2),
        Column("TAGS", lambda row: shown_pairs(row["tags"]), drops=3),
        Column("DESCRIPTION", lambda row: str(row["description"]), wraps=True, drops=1),
    ]


def _emit_changed(session: Session, record: Any) -> None:
    if session.asked_for_data:
        emit(session, record)
