"""``wherry config``: what is set, and where."""

from __future__ import annotations

from typing import Any, Dict, List

import click

from ..core.errors import UserErrorException, WherryError
from ..core.ids import check_name
from ..core.settings import ENV, SETTINGS, shown
from .command import Group, guess, pass_session
from .output import emit
from .session import Session, choose_workspace
from .settings_file import change, is_written, path_of
from .table import Column

_NAMES = [setting.name for setting in SETTINGS]
_PATIENCE_S = 2.0


def _known(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value not in _NAMES and not ctx.resilient_parsing:
        raise UserErrorException(
            f"there is no setting {value!r}{guess(str(value), _NAMES)}",
            hint="wherry config lists them",
        )
    return value


def _completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> List[str]:
    return [name for name in _NAMES if name.startswith(incomplete)]


def _known_or_written(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """What is not known can still be taken out of the file."""
    return value if is_written(value) else _known(ctx, param, value)


_name_argument = click.argument("name", callback=_known, shell_complete=_completed)


@click.group(
    cls=Group,
    invoke_without_command=True,
    examples=[
        "wherry config",
        "wherry config set workspace churn",
        "wherry config get home",
        "wherry config unset workspace",
    ],
)
@click.pass_context
@pass_session
def config(session: Session, ctx: click.Context) -> None:
    """Show and change settings.

    Without a command it lists them with their values and where each comes from: an option (flag),
    an environment variable, the settings file, or the default; the first of these wins. Before
    its default, the workspace comes from an .azureml/config.json in this folder or one above, if
    that names a workspace of the server.
    """
    if ctx.invoked_subcommand is None:
        emit(session, _rows(session), _columns())
        session.say(f"the settings file is {path_of(session.settings)}")


@config.command("get", examples=["wherry config get home"])
@_name_argument
@pass_session
def get(session: Session, name: str) -> None:
    """Print the value of one setting."""
    row = next(row for row in _rows(session) if row["name"] == name)
    if session.output == "table" and session.query is None:
        session.write("" if row["value"] is None else str(row["value"]))
    else:
        emit(session, row)


@config.command(
    "set", examples=["wherry config set workspace churn", "wherry config set port 8700"]
)
@_name_argument
@click.argument("value")
@pass_session
def set_(session: Session, name: str, value: str) -> None:
    """Write one setting into the settings file."""
    if name == "home":
        raise UserErrorException(
            "home cannot be set in the settings file, which lies in it",
            hint=f"export WHERRY_HOME={value}",
        )
    if name == "workspace":
        check_name("workspace", value)
    path = change(name, value)
    session.say(f"{name} = {shown(name, value)}  in {path}")
    _warn_if_covered(session, name)


@config.command("unset", examples=["wherry config unset workspace"])
@click.argument("name", callback=_known_or_written, shell_complete=_completed)
@pass_session
def unset(session: Session, name: str) -> None:
    """Take one setting out of the settings file."""
    path = change(name, None)
    session.say(f"{name} is not set in {path} any more")


def _rows(session: Session) -> List[Dict[str, Any]]:
    """The settings that hold here. A server that does not answer is no reason not to show them."""
    rows = session.settings.rows()
    try:
        choice = choose_workspace(session.settings, lambda: session.reach(_PATIENCE_S))
    except WherryError:
        choice = choose_workspace(session.settings, lambda: None)
    for row in rows:
        if row["name"] == "workspace":
            row.update(value=choice.name, origin=choice.origin)
    return rows


def _warn_if_covered(session: Session, name: str) -> None:
    if session.settings.origin(name) == ENV:
        variable = next(setting.env for setting in SETTINGS if setting.name == name)
        session.say(f"but {variable} is set in the environment, and that comes first")


def _columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row["name"])),
        Column("VALUE", _value),
        Column("ORIGIN", lambda row: str(row["origin"])),
        Column("VARIABLE", lambda row: str(row["env"]), drops=2),
        Column("MEANING", lambda row: str(row["doc"]), wraps=True, drops=1),
    ]


def _value(row: Dict[str, Any]) -> str:
    return "" if row["value"] is None else str(row["value"])
