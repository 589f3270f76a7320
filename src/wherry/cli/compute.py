"""``wherry compute``: where runs execute."""

from __future__ import annotations

from typing import Any, Optional

import click

from .command import Group, completing, pass_session
from .compute_change import attach, create, update
from .compute_delete import delete, detach, give_up
from .compute_instance import logs, open_instance
from .compute_path import compute_path, names_one, site_path, the_name
from .compute_ssh import connect_ssh
from .compute_view import (
    cost_columns,
    node_columns,
    shown,
    size_columns,
    target_columns,
)
from .options import OneOf
from .output import emit
from .session import Session


@click.group(
    cls=Group,
    examples=[
        "wherry compute list",
        "wherry compute create cpu-cluster --max-instances 4",
        "wherry compute attach node1 me@node1.lab --key ~/.ssh/id_ed25519",
        "wherry run --target cpu-cluster train.py",
        "wherry compute create my-notebooks --type computeinstance",
        "wherry compute open my-notebooks",
    ],
)
def compute() -> None:
    """Make, attach and look at compute targets.

    A target is this machine (local), a cluster whose nodes come and go with the runs, a machine
    that you reach over SSH, or a compute instance: a machine of your own with JupyterLab. Each
    belongs to a workspace.
    """


compute.add_command(create)
compute.add_command(attach)


@compute.command("list", examples=["wherry compute list", "wherry compute list --output json"])
@pass_session
def list_(session: Session) -> None:
    """List the targets with their nodes, what is free, and what is wrong."""
    emit(session, session.client.get(compute_path(session))["items"], target_columns())


@compute.command(
    "show",
    examples=[
        "wherry compute show cpu-cluster",
        "wherry compute show -n cpu-cluster --query status.current_node_count -o tsv",
    ],
)
@names_one("compute")
@pass_session
def show(session: Session, name: Optional[str], named: Optional[str]) -> None:
    """Show one target: what it is, how it is, and its nodes."""
    which = the_name(name, named, "wherry compute show NAME")
    record = session.client.get(compute_path(session, which))
    if session.output == "table" and session.query is None:
        session.write(shown(session, record))
    else:
        emit(session, record)


compute.add_command(update)


compute.add_command(open_instance)


def _acting(function: Any) -> Any:
    wait = click.option(
        "--no-wait", is_flag=True, help="Return before a compute instance is as it should be."
    )
    return names_one("compute")(wait(function))


@compute.command("start", examples=["wherry compute start my-notebooks"])
@_acting
@pass_session
def start(session: Session, name: Optional[str], named: Optional[str], no_wait: bool) -> None:
    """Start a compute instance, or let a cluster that was stopped take runs again."""
    which = the_name(name, named, "wherry compute start NAME")
    _act(session, which, "start", "takes runs again", no_wait)


@compute.command("stop", examples=["wherry compute stop my-notebooks"])
@_acting
@pass_session
def stop(session: Session, name: Optional[str], named: Optional[str], no_wait: bool) -> None:
    """Stop a compute instance, or have a cluster take no more runs.

    The files and installed packages of an instance stay. On a cluster, runs go on and others wait;
    idle nodes are removed.
    """
    which = the_name(name, named, "wherry compute stop NAME")
    _act(session, which, "stop", "takes no more runs until it is started", no_wait)


@compute.command("restart", examples=["wherry compute restart my-notebooks"])
@_acting
@pass_session
def restart(session: Session, name: Optional[str], named: Optional[str], no_wait: bool) -> None:
    """Start a compute instance anew, or replace the nodes of a cluster that run nothing."""
    which = the_name(name, named, "wherry compute restart NAME")
    _act(session, which, "restart", "gets new nodes for those that run nothing", no_wait)


compute.add_command(logs)
compute.add_command(delete)
compute.add_command(detach)
compute.add_command(give_up)


@compute.command(
    "list-nodes",
    examples=["wherry compute list-nodes cpu-cluster", "wherry compute list-nodes local -o json"],
)
@names_one("compute")
@pass_session
def list_nodes(session: Session, name: Optional[str], named: Optional[str]) -> None:
    """List the nodes of a target: their states, and the run that each is busy with."""
    which = the_name(name, named, "wherry compute list-nodes NAME")
    emit(
        session,
        session.client.get(f"{compute_path(session, which)}/nodes")["items"],
        node_columns(),
    )


@compute.command(
    "list-sizes",
    examples=["wherry compute list-sizes", "wherry compute list-sizes --location lab"],
)
@click.option(
    "--location",
    default="local",
    show_default=True,
    metavar="SITE",
    shell_complete=completing("sites"),
    help="The site.",
)
@pass_session
def list_sizes(session: Session, location: str) -> None:
    """List the sizes that nodes of a site may have."""
    from ..core.compute_configs import site_name

    location = site_name(location)
    emit(session, session.client.get(f"{site_path(location)}/sizes")["items"], size_columns())


compute.add_command(connect_ssh)


@compute.command(
    "cost",
    examples=[
        "wherry compute cost",
        "wherry compute cost --by day",
        "wherry compute cost --by run -o json",
    ],
)
@click.option(
    "--by",
    type=OneOf(["target", "run", "day"]),
    default="target",
    show_default=True,
    metavar="WHAT",
    help="For each target, run or day.",
)
@pass_session
def cost(session: Session, by: str) -> None:
    """Show for how long nodes were used, and what that cost at their sizes' prices."""
    from ..sdk.client import quote

    path = f"/workspaces/{quote(session.choice.name)}/costs"
    emit(session, session.client.get(path, {"by": by})["items"], cost_columns(by))


@compute.command(
    "simulate-eviction",
    examples=[
        "wherry compute simulate-eviction spot-cluster",
        "wherry compute simulate-eviction spot-cluster --node spot-cluster-1",
    ],
)
@names_one("compute")
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=completing("nodes"),
    help="Which node.  [default: one that runs something]",
)
@pass_session
def simulate_eviction(
    session: Session, name: Optional[str], named: Optional[str], node: Optional[str]
) -> None:
    """Take a node of a low-priority cluster away, to see how its run bears it.

    The run gets SIGTERM and 30 seconds, and then waits for its next attempt.
    """
    which = the_name(name, named, "wherry compute simulate-eviction NAME")
    path = f"{compute_path(session, which)}/evict"
    _done(
        session, session.client.post(path, json={"node": node}), f"a node of {which} is taken away"
    )


def _act(session: Session, name: str, what: str, told: str, no_wait: bool) -> None:
    record = session.client.post(f"{compute_path(session, name)}/{what}", json={})
    if record["kind"] != "instance":
        _done(session, record, f"compute target {name} {told}")
        return
    from . import instance_wait

    if not no_wait:
        doing = {"start": "starting", "stop": "stopping", "restart": "restarting"}[what]
        record = instance_wait.settled(session, record, doing)
    state = instance_wait.state_of(record)
    then = f"; open it with: wherry compute open {name}" if state in instance_wait.RUNNING else ""
    _done(session, record, f"compute instance {name} is {state}{then}")


def _done(session: Session, record: Any, told: str) -> None:
    session.say(told)
    if session.asked_for_data:
        emit(session, record)
