"""``wherry environment label|unlabel``: names for versions, such as production."""

from __future__ import annotations

from typing import Optional, Tuple

import click

from .command import Command, completing, pass_session
from .session import Session

_LABELS = click.argument(
    "labels", nargs=-1, required=True, metavar="LABEL...", shell_complete=completing("labels")
)
_NAME = click.argument("name", shell_complete=completing("environments"))


@click.command(
    "label",
    cls=Command,
    examples=[
        "wherry environment label train production -v 3",
        "wherry environment label train tested production",
        "wherry run --environment train@production train.py",
    ],
)
@_NAME
@_LABELS
@click.option("-v", "--version", help="Which version.  [default: the newest]")
@pass_session
def label(session: Session, name: str, labels: Tuple[str, ...], version: Optional[str]) -> None:
    """Put labels on a version of an environment.

    Each is on one version at a time: it is taken from the one that had it. NAME@LABEL then means
    that version, wherever an environment is named. The label latest is always on the newest.
    """
    from ..sdk.environment import Environment

    found = version or Environment.get(session.workspace, name).version
    Environment.label(session.workspace, name, str(found), list(labels))
    session.say(f"environment {name} version {found} is {' and '.join(labels)}")


@click.command(
    "unlabel", cls=Command, examples=["wherry environment unlabel train production tested"]
)
@_NAME
@_LABELS
@pass_session
def unlabel(session: Session, name: str, labels: Tuple[str, ...]) -> None:
    """Take labels from an environment, whichever version they are on.

    Runs that were submitted with one keep what it meant then.
    """
    from ..sdk.environment import Environment

    Environment.unlabel(session.workspace, name, list(labels))
    session.say(f"no version of environment {name} is {' or '.join(labels)} any more")
