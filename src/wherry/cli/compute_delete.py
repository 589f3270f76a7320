"""``wherry compute delete`` and ``detach``: away with a target, but not under its runs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import click

from .command import Command, pass_session
from .compute_path import compute_path, names_one, the_name
from .ending import Usage
from .session import Session

_NAMED = 5


def _leaving(function: Any) -> Any:
    yes = click.option("-y", "--yes", is_flag=True, help="Do not ask; cancel the runs on it.")
    wait = click.option("--no-wait", is_flag=True, help="Return before it is gone.")
    return names_one("compute")(yes(wait(function)))


@click.command(
    cls=Command,
    examples=["wherry compute delete cpu-cluster", "wherry compute delete -n old --yes --no-wait"],
)
@_leaving
@pass_session
def delete(
    session: Session, name: Optional[str], named: Optional[str], yes: bool, no_wait: bool
) -> None:
    """Remove a cluster with its nodes; runs that are on it, or wait for it, are canceled first.

    It asks before that. What its runs logged and left stays.
    """
    which = the_name(name, named, "wherry compute delete NAME")
    record = session.client.get(compute_path(session, which))
    _leave(session, record, "Delete", yes, no_wait)


@click.command(
    cls=Command, examples=["wherry compute detach node1", "wherry compute detach -n node1 --yes"]
)
@_leaving
@pass_session
def detach(
    session: Session, name: Optional[str], named: Optional[str], yes: bool, no_wait: bool
) -> None:
    """Take a machine out of the workspace; nothing of its own is touched.

    It asks before runs that are on it, or wait for it, are canceled.
    """
    which = the_name(name, named, "wherry compute detach NAME")
    record = session.client.get(compute_path(session, which))
    if record["kind"] != "machine":
        raise Usage(
            f"{which} was made here, and is not attached", hint=f"wherry compute delete {which}"
        )
    _leave(session, record, "Detach", yes, no_wait)


def _leave(session: Session, record: Dict[str, Any], verb: str, yes: bool, no_wait: bool) -> None:
    from . import compute_wait
    from .job import confirm

    name = str(record["name"])
    path = compute_path(session, name)
    active = [run["id"] for run in session.client.get(f"{path}/runs", {"limit": 1000})["items"]]
    confirm(_question(verb, name, active), yes)
    session.client.delete(f"{path}?cancel=true")
    if active:
        session.say(f"{len(active)} run{'' if len(active) == 1 else 's'} canceled")
    if not no_wait:
        compute_wait.gone(session, name)
    done = "detached" if verb == "Detach" else "deleted"
    session.say(f"compute target {name} {'is being ' if no_wait else ''}{done}")


def _question(verb: str, name: str, active: List[str]) -> str:
    if not active:
        return f"{verb} compute target {name}?"
    more = f" and {len(active) - _NAMED} more" if len(active) > _NAMED else ""
    runs = f"{', '.join(active[:_NAMED])}{more}"
    noun = "run" if len(active) == 1 else "runs"
    return f"{verb} compute target {name} and cancel the {len(active)} {noun} on it ({runs})?"
