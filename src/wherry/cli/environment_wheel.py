"""``wherry environment add-wheel|list-wheels``: packages of one's own, kept by the workspace."""

from __future__ import annotations

import click

from ..core.sizes import format_bytes
from .command import Command, pass_session
from .duration import show_time
from .options import Existing
from .output import emit
from .session import Session
from .table import Column


@click.command(
    "add-wheel",
    cls=Command,
    examples=[
        "wherry environment add-wheel dist/mine-1.0-py3-none-any.whl",
        "wherry environment add-wheel dist/mine-1.0-py3-none-any.whl >> requirements.txt",
    ],
)
@click.argument("file", type=Existing(folder=False))
@click.option(
    "--exist-ok", is_flag=True, help="Also where the workspace has another content of that name."
)
@pass_session
def add_wheel(session: Session, file: str, exist_ok: bool) -> None:
    """Give a wheel to the workspace and print its address.

    The address stands for the wheel in pip requirements and below '- pip:' of a conda file. It
    means this very content, for good; nodes fetch it from the server when they need it.
    """
    from ..sdk import private_wheel

    kept = private_wheel.add(session.workspace, file, exist_ok)
    if session.asked_for_data:
        emit(session, {name: value for name, value in kept.items() if name != "missing"})
    else:
        session.write(kept["address"])


@click.command(
    "list-wheels",
    cls=Command,
    examples=[
        "wherry environment list-wheels",
        "wherry environment list-wheels --query '[].address' -o tsv",
    ],
)
@pass_session
def list_wheels(session: Session) -> None:
    """List the wheels that the workspace keeps, the newest first."""
    from ..sdk.client import quote

    items = session.client.get(f"/workspaces/{quote(session.choice.name)}/wheels")["items"]
    columns = [
        Column("NAME", lambda row: str(row["name"])),
        Column("SIZE", lambda row: format_bytes(row["size"])),
        Column("ADDED", lambda row: show_time(row["created_at"]), drops=1),
        Column("ADDRESS", lambda row: str(row["address"]), wraps=True),
    ]
    emit(session, items, columns)
