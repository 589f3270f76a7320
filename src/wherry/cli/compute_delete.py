"""``wherry compute delete``, ``detach`` and ``give-up``: away with it, but not under its runs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import click

from .command import Command, completing, pass_session
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
    """Remove a cluster with its nodes, or a compute instance with its files.

    Runs that are on it, or wait for it, are canceled first; it asks before that. What its runs
    logged and left stays.
    """
    which = the_name(name, named, "wherry compute delete NAME")
    record = session.client.get(compute_path(session, which))
    _leave(session, record, "Delete", yes, no_wait)


@click.command(
    cls=Command,
    examples=[
        "wherry compute detach node1",
        "wherry compute detach -n node1 --yes",
        "wherry compute detach node1 --force",
    ],
)
@_leaving
@click.option(
    "--force", is_flag=True, help="It is lost: do not wait for it; runs on it count as failed."
)
@pass_session
def detach(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    yes: bool,
    no_wait: bool,
    force: bool,
) -> None:
    """Take a machine out of the workspace; nothing of its own is touched.

    It asks before runs that are on it, or wait for it, are canceled. A machine that does not answer
    is waited for, since runs may still be executed there; --force declares it lost.
    """
    which = the_name(name, named, "wherry compute detach NAME")
    record = session.client.get(compute_path(session, which))
    if record["kind"] != "machine":
        raise Usage(
            f"{which} was made here, and is not attached", hint=f"wherry compute delete {which}"
        )
    _leave(session, record, "Detach", yes, no_wait, force)


@click.command(
    "give-up",
    cls=Command,
    examples=[
        "wherry compute give-up lab-cpu node1.lab",
        "wherry compute give-up lab-cpu node1.lab --yes",
    ],
)
@click.argument("name", shell_complete=completing("targets"))
@click.argument("node")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def give_up(session: Session, name: str, node: str, yes: bool) -> None:
    """Declare a node of a cluster lost that does not answer and will not come back.

    Its run ends as Failed (RunnerLost), though it may still be executed there; what it still sends
    is refused. The node goes, and its host is not used again until it answers and what it
    still runs is ended. A node that answers is refused.
    """
    from ..sdk.client import quote
    from .job import confirm

    path = compute_path(session, name)
    nodes = session.client.get(path)["nodes"]
    found: Dict[str, Any] = next((each for each in nodes if node in (each["id"], each["name"])), {})
    confirm(_meaning(name, found.get("name") or node, found.get("run_id")), yes)
    session.client.post(f"{path}/nodes/{quote(found.get('id') or node)}/give-up", json={})
    session.say(f"node {found.get('name') or node} of {name} is given up")


def _meaning(name: str, node: str, run_id: Optional[str]) -> str:
    if run_id is None:
        return f"Give up node {node} of {name}? Its host is not used until it answers."
    return (
        f"Give up node {node} of {name}? Run {run_id} may still be executing there: it counts as "
        "failed, and what it still sends is refused."
    )


def _leave(
    session: Session,
    record: Dict[str, Any],
    verb: str,
    yes: bool,
    no_wait: bool,
    force: bool = False,
) -> None:
    from . import compute_wait
    from .job import confirm

    name = str(record["name"])
    path = compute_path(session, name)
    active = [run["id"] for run in session.client.get(f"{path}/runs", {"limit": 1000})["items"]]
    what = f"target {name}"
    if record["kind"] == "instance":
        what = f"instance {name} with all files in its home"
    confirm(_question(verb, what, active, force), yes)
    session.client.delete(f"{path}?{'force' if force else 'cancel'}=true")
    if active and not force:
        session.say(f"{len(active)} run{'' if len(active) == 1 else 's'} canceled")
    if not no_wait:
        compute_wait.gone(session, name)
    done = "detached" if verb == "Detach" else "deleted"
    session.say(f"compute target {name} {'is being ' if no_wait else ''}{done}")


def _question(verb: str, what: str, active: List[str], force: bool) -> str:
    if not active:
        return f"{verb} compute {what}?"
    more = f" and {len(active) - _NAMED} more" if len(active) > _NAMED else ""
    runs = f"{', '.join(active[:_NAMED])}{more}"
    noun = "run" if len(active) == 1 else "runs"
    if force:
        return (
            f"{verb} compute {what} as lost? Its {len(active)} {noun} ({runs}) may still be "
            "executing there: those count as failed, and what they still send is refused."
        )
    return f"{verb} compute {what} and cancel the {len(active)} {noun} on it ({runs})?"
