"""``wherry server``: the server of this machine."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict

import click

from .command import Group, pass_session, whole_number_option
from .ending import UNREACHABLE
from .output import emit
from .session import Session


@click.group(
    cls=Group,
    examples=["wherry server status", "wherry server start", "wherry server logs -f"],
)
def server() -> None:
    """Start, stop and look at the server of this machine.

    It starts by itself when a command needs it. Runs go on while it is stopped; it takes them up
    again when it comes back.
    """


@server.command("start", examples=["wherry server start", "WHERRY_PORT=8700 wherry server start"])
@pass_session
def start(session: Session) -> None:
    """Start the server in the background, if it is not running."""
    home = _home(session)
    status = home.start()
    session.say(f"the server of {status.home} is {status.message} (process {status.pid})")
    if session.asked_for_data:
        emit(session, status._asdict())


@server.command("stop", examples=["wherry server stop"])
@pass_session
def stop(session: Session) -> None:
    """Stop the server; runs go on without it."""
    home = _home(session)
    stopped = home.stop()
    session.say(f"the server of {home.home} {'has stopped' if stopped else 'was not running'}")


@server.command("status", examples=["wherry server status", "wherry server status -o json"])
@click.pass_context
@pass_session
def status(session: Session, ctx: click.Context) -> None:
    """Say whether the server runs, where and since when; exit code 4 when it does not."""
    found = _remote(session) if session.settings.server else _home(session).status()._asdict()
    emit(session, found)
    if not found["running"]:
        ctx.exit(UNREACHABLE)


@server.command("logs", examples=["wherry server logs", "wherry server logs -f -n 100"])
@click.option("-f", "--follow", is_flag=True, help="Go on until interrupted.")
@whole_number_option(
    "-n",
    "--lines",
    default=20,
    show_default=True,
    help="So many of the last lines.",
)
@pass_session
def logs(session: Session, follow: bool, lines: int) -> None:
    """Show what the server has written about itself."""
    home = _home(session)
    for line in home.log_tail(lines) if lines else []:
        session.write(line)
    if follow:
        _follow(session, home.log_path)


@server.command("run", examples=["wherry server run", "WHERRY_LOG_LEVEL=debug wherry server run"])
@pass_session
def run(session: Session) -> None:
    """Run the server here, in the foreground, until Ctrl-C; for service managers and containers."""
    import os

    from ..core.errors import ConflictError
    from ..sdk.server import require_server_packages
    from ..sdk.settings import server_environment

    home = _home(session)
    status = home.status()
    if status.running:
        raise ConflictError(
            f"the server of {status.home} is {status.message} already (process {status.pid})",
            hint="wherry server stop",
        )
    require_server_packages(home.home)
    sys.stdout.flush()
    arguments = [sys.executable, "-m", "wherry.api"]
    os.execve(sys.executable, arguments, server_environment(home.home))  # noqa: S606


def _home(session: Session) -> Any:
    from ..sdk.connection import home_server

    if session.settings.server:
        session.say(f"commands talk to {session.settings.server}; this is about the one of here")
    return home_server(session.settings)


def _remote(session: Session) -> Dict[str, Any]:
    from ..core.errors import ServerUnavailableError

    url = session.settings.server
    try:
        return {"running": True, **session.client.get("/server", start=False)}
    except ServerUnavailableError as error:
        return {"running": False, "url": url, "message": error.message}


def _follow(session: Session, path: str) -> None:
    """What is appended to a file, for ever; it may not be there yet."""
    from ..core.errors import NotFoundError

    try:
        file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115
    except FileNotFoundError:
        raise NotFoundError(
            f"no server has written to {path} yet", hint="wherry server start"
        ) from None
    with file:
        file.seek(0, 2)
        while True:
            text = file.read()
            if text:
                session.write(text, newline=False)
            else:
                time.sleep(0.2)
