"""``wherry open``: the page of a run in the browser."""

from __future__ import annotations

import os
from typing import Optional

import click

from .command import Command, argument_for_run, pass_session
from .session import Session


@click.command(
    "open", cls=Command, examples=["wherry open", "wherry open 3f2a9c01", "wherry open --list"]
)
@argument_for_run(required=False)
@click.option("--list", "listing", is_flag=True, help="Show the list of all runs instead.")
@pass_session
def open_page(session: Session, run_id: Optional[str], listing: bool) -> None:
    """Show a run in the browser.

    Without an id it is the newest run. Where there is no browser, the address is printed.
    """
    from ..sdk.client import quote
    from .browser import show

    if listing:
        place = f"#/?workspace={quote(session.workspace.name)}"
    else:
        place = f"#/runs/{quote(session.run(run_id).id)}"
    address = f"{session.client.url}/view/{place}"
    joint = "&" if "?" in place else "?"
    if show(f"{address}{joint}token={session.client.token}"):
        session.say(f"opened {address}")
        return
    session.say(f"there is no browser here; the page asks for the token in {token_file(session)}")
    session.write(address)


def token_file(session: Session) -> str:
    settings = session.settings
    return "WHERRY_TOKEN" if settings.server else os.path.join(settings.home, "token")
