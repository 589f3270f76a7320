"""Where compute targets and sites are on the server, and how they are named on a command line."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import click

from .command import completing
from .ending import Usage
from .session import Session


def compute_path(session: Session, name: Optional[str] = None) -> str:
    from ..sdk.client import quote

    every = f"/workspaces/{quote(session.choice.name)}/computes"
    return every if name is None else f"{every}/{quote(name)}"


def site_path(name: str) -> str:
    from ..sdk.client import quote

    return f"/sites/{quote(name)}"


def names_one(noun: str) -> Callable[[Any], Any]:
    """A NAME, which may be given with -n as well, as in ``az ml``."""

    def add(function: Any) -> Any:
        what = completing("targets" if noun == "compute" else "sites")
        same = click.option(
            "-n",
            "--name",
            "named",
            metavar="NAME",
            shell_complete=what,
            help="The same as the argument.",
        )
        return click.argument("name", required=False, shell_complete=what)(same(function))

    return add


def the_name(name: Optional[str], named: Optional[str], usage: str) -> str:
    found = one_name(name, named, usage)
    if not found:
        raise Usage("no name is given", hint=usage)
    return found


def one_name(name: Optional[str], named: Optional[str], usage: str) -> Optional[str]:
    """The name, where a file may have it as well."""
    if name and named and name != named:
        raise Usage(f"both NAME ({name}) and --name ({named}) are given", hint=usage)
    return name or named


def told(session: Session, record: Dict[str, Any]) -> Dict[str, Any]:
    """The record, with what the server has to say about it said."""
    for notice in record.get("notices") or []:
        session.say(notice)
    return record
