"""``wherry mlflow``: what MLflow's clients have to know, for a shell to take over."""

from __future__ import annotations

import shlex
import sys
from typing import Callable, Dict

import click

from .command import Command, pass_session
from .options import OneOf
from .output import emit
from .session import Session

_LINES: Dict[str, Callable[[str, str], str]] = {
    "sh": lambda name, value: f"export {name}={shlex.quote(value)}",
    "fish": lambda name, value: f"set -gx {name} {_in_quotes(value)}",
    "powershell": lambda name, value: f"$env:{name} = '{value.replace(chr(39), chr(39) * 2)}'",
}


@click.command(
    cls=Command,
    examples=[
        'eval "$(wherry mlflow)"                       # bash, zsh, sh',
        'eval "$(wherry mlflow --workspace churn)"',
        "wherry mlflow --shell fish | source",
        "wherry mlflow --shell powershell | Out-String | Invoke-Expression",
        "wherry mlflow -o json                         # for a tool of your own",
    ],
)
@click.option(
    "--shell",
    type=OneOf(list(_LINES)),
    default="sh",
    metavar="sh|fish|powershell",
    help="Whose language the lines are in (default: sh).",
)
@pass_session
def mlflow(session: Session, shell: str) -> None:
    """Print what MLflow's clients need to log in here.

    MLFLOW_TRACKING_URI and MLFLOW_TRACKING_TOKEN, as lines that the shell takes over: from then on
    every script, notebook and tool that it starts logs into the workspace. In Python,
    mlflow.set_tracking_uri(ws.get_mlflow_tracking_uri()) does the same, and runs that Wherry
    starts need neither. The token is not shown on a terminal.
    """
    from ..sdk.settings import variable

    workspace = session.workspace
    session.client.get(f"/workspaces/{workspace.name}")
    variables = {
        "MLFLOW_TRACKING_URI": workspace.mlflow_tracking_uri,
        "MLFLOW_TRACKING_TOKEN": session.client.token,
    }
    if session.asked_for_data:
        emit(session, variables)
        return
    if sys.stdout.isatty():
        del variables["MLFLOW_TRACKING_TOKEN"]
        session.say('eval "$(wherry mlflow)" sets this and the token, which is not shown here')
    for name, value in variables.items():
        session.write(_LINES[shell](name, value))
    if variable("MLFLOW_TRACKING_USERNAME"):
        session.say("MLFLOW_TRACKING_USERNAME is set, and sent instead of the token: unset it")


def _in_quotes(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
