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
    from .browser import show

    shown = session.workspace if listing else session.run(run_id)
    address = shown.get_portal_url()
    joint = "&" if "?" in address else "?"
    if show(f"{address}{joint}token={session.client.token}"):
        session.say(f"opened {address}")
        return
    session.say(f"there is no browser here; the page asks for the token in {token_file(session)}")
    session.write(address)


def token_file(session: Session) -> str:
    settings = session.settings
    return "WHERRY_TOKEN" if settings.server else os.path.join(settings.home, "token")
