"""The program as click sees it, and the one place where errors end."""

from __future__ import annotations

import os
import sys
from typing import List, Optional

import click

from .command import LazyGroup, pass_session
from .ending import OK, conclude
from .overview import ALIASES, overview, places
from .session import Session, reading


class Program(LazyGroup):
    """``wherry`` itself: its help is the overview, which needs none of its commands."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(overview())


def run(arguments: List[str], session: Optional[Session] = None) -> int:
    """Carry out one command line; the exit code."""
    session = session or Session()
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        code = cli.main(arguments, prog_name="wherry", obj=session, standalone_mode=False)
        with reading():
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost frame
        return conclude(error, session)
    return code if isinstance(code, int) else OK


def _no_color(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> None:
    """https://no-color.org: any value but the empty one. A dumb terminal shows no colour either."""
    if value and (param.name == "no_color" or value == "dumb"):
        ctx.ensure_object(Session).color = False


@click.command(cls=Program, places=places(), invoke_without_command=True)
@click.option("--no-color", envvar="NO_COLOR", hidden=True, expose_value=False, callback=_no_color)
@click.option("--term", envvar="TERM", hidden=True, expose_value=False, callback=_no_color)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@pass_session
@click.pass_context
def cli(ctx: click.Context, session: Session, version: bool) -> None:
    """Carries a training script, unchanged, to whatever compute is at hand."""
    if version:
        from ..core.version import VERSION

        session.write(f"wherry {VERSION}")
        ctx.exit(0)
    if ctx.invoked_subcommand is None:
        session.write(overview(), newline=False)
        ctx.exit(0)
