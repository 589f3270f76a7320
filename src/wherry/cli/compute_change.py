"""``wherry compute create``, ``attach`` and ``update``."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import click

from .command import Command, completing, pass_session, whole_number_option
from .compute_path import compute_path, names_one, one_name, the_name, told
from .duration import duration_option
from .instance_options import set_up, settings_of, timed, times_of, with_state
from .options import Existing, OneOf
from .output import emit
from .session import Session

_TYPES = ("amlcompute", "computeinstance", "virtualmachine", "batchai")
_TIERS = ("dedicated", "low_priority")


def _described(function: Any) -> Any:
    """The options of whatever can be described in a file."""
    options = [
        click.option(
            "-f",
            "--file",
            "path",
            type=Existing(folder=False),
            metavar="FILE",
            help="The target, in the form of Azure ML's (CLI v2).",
        ),
        click.option(
            "--set",
            "changes",
            multiple=True,
            metavar="FIELD=VALUE",
            help="Change a field of the file; may be repeated.",
        ),
        click.option("--description", help="What it is for."),
        click.option(
            "--tag", "--tags", "tags", multiple=True, metavar="KEY=VALUE", help="A label."
        ),
        click.option("--no-wait", is_flag=True, help="Return before it can be used."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _scaled(least: str = "", most: str = "", idle: str = "") -> Callable[[Any], Any]:
    """What is told of the defaults differs: a change leaves what it does not name."""
    options: Tuple[Callable[[Any], Any], ...] = (
        whole_number_option("--min-instances", help=f"Nodes that are always there.{least}"),
        whole_number_option("--max-instances", help=f"Nodes that there may be.{most}"),
        click.option(
            "--idle-time-before-scale-down",
            "idle",
            callback=duration_option,
            metavar="TIME",
            help=f"How long a node may be idle, such as 120 or 10m.{idle}",
        ),
    )

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@click.command(
    cls=Command,
    examples=[
        "wherry compute create cpu-cluster --max-instances 4",
        "wherry compute create -n lab-gpu --location lab --max-instances 3 --tier low_priority",
        "wherry compute create -n big --size Standard_DS3_v2 --min-instances 1",
        "wherry compute create -f cluster.yml --set max_instances=8",
        "wherry compute create my-notebooks --type computeinstance --stop-at 18:00",
        "wherry compute create mydsvm --type virtualmachine --location boxes",
    ],
)
@names_one("compute")
@click.option(
    "-t",
    "--type",
    type=OneOf(_TYPES),
    metavar="TYPE",
    help="amlcompute, a cluster; computeinstance, a machine of your own with JupyterLab; or "
    "virtualmachine, a machine that stays.  [default: amlcompute]",
)
@click.option(
    "--location",
    metavar="SITE",
    shell_complete=completing("sites"),
    help="The site that its nodes come from.  [default: local, this machine]",
)
@click.option(
    "--size",
    metavar="SIZE",
    shell_complete=completing("sizes"),
    help="The size of its nodes: one of the site's, or Azure's, which means the nearest.",
)
@click.option(
    "--tier",
    type=OneOf(_TIERS),
    metavar="TIER",
    help="dedicated, or low_priority: its nodes may be taken away.  [default: dedicated]",
)
@_scaled("  [default: 0]", "  [default: 4]", "  [default: 2m]")
@whole_number_option(
    "--ssh-port", help="Where a machine that is a container listens.  [default: any free port]"
)
@timed("  [default: never]")
@set_up
@_described
@pass_session
def create(
    session: Session, name: Optional[str], named: Optional[str], path: Optional[str], **options: Any
) -> None:
    """Make a cluster, whose nodes come when runs wait, or a machine of your own with JupyterLab.

    A file of a cluster may look like this:

    \b
    type: amlcompute
    name: cpu-cluster
    location: lab
    min_instances: 0
    max_instances: 4
    idle_time_before_scale_down: 120

    With no instances at the least, nothing runs at night: the first run has a node made.

    A file of a compute instance, which is opened with wherry compute open:

    \b
    type: computeinstance
    name: my-notebooks
    idle_time_before_shutdown_minutes: 60
    setup_scripts:
      creation_script: {path: setup.sh, timeout_minutes: 10}
    schedules:
      compute_start_stop:
        - action: stop
          trigger: {type: cron, expression: "0 18 * * *", time_zone: Europe/Berlin}
    """
    given = {
        "name": one_name(name, named, "wherry compute create NAME"),
        "type": options["type"],
        "location": options["location"],
        "size": options["size"],
        "tier": options["tier"],
        "ssh_settings.ssh_port": options["ssh_port"],
        **_scale(options),
        **settings_of(options),
    }
    _put(session, path, given, options, attach=False)


@click.command(
    cls=Command,
    examples=[
        "wherry compute attach node1 me@node1.lab --key ~/.ssh/id_ed25519",
        "wherry compute attach node1 me@10.0.0.4:2222 --password",
        "wherry compute attach deep me@deep.lab --jump me@gate.lab",
        "wherry compute attach -f vm.yml",
    ],
)
@names_one("compute")
@click.argument("host", required=False, metavar="[USER@]ADDRESS[:PORT]")
@click.option("-t", "--type", type=OneOf(_TYPES), metavar="TYPE", help="virtualmachine.")
@click.option(
    "--key",
    "--ssh-private-key-file",
    "key",
    type=Existing(folder=False),
    metavar="FILE",
    help="The private key to log in with; the server keeps it, sealed.",
)
@click.option("--passphrase", is_flag=True, help="Ask for the key's passphrase.")
@click.option("--password", is_flag=True, help="Ask for a password to log in with.")
@click.option("--admin-username", metavar="USER", help="The same as USER@.")
@whole_number_option("--ssh-port", help="The same as :PORT.")
@click.option("--resource-id", metavar="ADDRESS", help="The same as ADDRESS.")
@click.option("--jump", metavar="HOST", help="A host to go through, such as me@gate.lab.")
@click.option("--host-key", metavar="KEY", help="What it must show, such as 'ssh-ed25519 AAAA...'.")
@click.option("--python", metavar="PATH", help="The Python to use there.  [default: it is found]")
@_described
@pass_session
def attach(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    host: Optional[str],
    path: Optional[str],
    **options: Any,
) -> None:
    """Make a machine that you reach over SSH a target.

    It needs sshd and a Python of 3.8 or later, nothing else. Without --key and --password the
    server uses its own SSH agent and ~/.ssh. The machine's host key is kept: should it show another
    one later, it is refused.
    """
    if named and name and not host:  # attach -n NAME ADDRESS
        name, host = None, name
    given = {
        "name": one_name(name, named, "wherry compute attach NAME HOST"),
        "type": options["type"],
        "address": host or options["resource_id"],
        "jump": options["jump"],
        "host_key": options["host_key"],
        "python": options["python"],
        "ssh_settings.admin_username": options["admin_username"],
        "ssh_settings.ssh_port": options["ssh_port"],
        "ssh_settings.ssh_private_key_file": _absolute(options["key"]),
        **_asked(options),
    }
    _put(session, path, given, options, attach=True)


@click.command(
    cls=Command,
    examples=[
        "wherry compute update cpu-cluster --max-instances 8",
        "wherry compute update cpu-cluster --min-instances 0 --idle-time-before-scale-down 10m",
        "wherry compute update cpu-cluster --tag team=churn",
        "wherry compute update my-notebooks --idle-time-before-shutdown-minutes 30",
        "wherry compute update my-notebooks --schedules disabled",
    ],
)
@names_one("compute")
@_scaled()
@timed("")
@click.option(
    "--schedules",
    "state",
    type=OneOf(("enabled", "disabled")),
    metavar="STATE",
    help="enabled or disabled: whether its schedules count.",
)
@click.option("--description", help="What it is for.")
@click.option("--tag", "--tags", "tags", multiple=True, metavar="KEY=VALUE", help="A label.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a field by its name in a file, such as max_instances=8; may be repeated.",
)
@pass_session
def update(session: Session, name: Optional[str], named: Optional[str], **options: Any) -> None:
    """Change how many nodes a cluster may have, how long a target may be idle, or its labels.

    Of a compute instance, --start-at and --stop-at replace the schedules that it had.
    """
    from .compute_file import changes_of
    from .ending import Usage
    from .job_file import set_field
    from .run import pairs

    which = the_name(name, named, "wherry compute update NAME --max-instances 8")
    given: Dict[str, Any] = {
        **_scale(options),
        **times_of(options),
        "description": options["description"],
        "tags": pairs("--tag", options["tags"]) or None,
    }
    if options["state"]:
        given["schedules"] = with_state(session, which, given["schedules"], options["state"])
    fields = {key: value for key, value in given.items() if value is not None}
    for change in options["changes"]:
        set_field(fields, change)
    if not fields:
        raise Usage("nothing is to be changed", hint="such as --max-instances 8")
    body = changes_of(fields, "the change")
    record = session.client.patch(compute_path(session, which), json=body)
    session.say(f"compute target {which} is changed")
    if session.asked_for_data:
        emit(session, record)


def _put(
    session: Session,
    path: Optional[str],
    given: Dict[str, Any],
    options: Dict[str, Any],
    *,
    attach: bool,
) -> None:
    from . import compute_file, compute_wait
    from .progress import Progress
    from .run import pairs

    given["description"] = options["description"]
    given["tags"] = pairs("--tag", options["tags"]) or None
    wanted = compute_file.read(path, given, options["changes"], attach=attach)
    where = compute_path(session, wanted.name)
    with Progress(session, f"looking at {wanted.name}" if attach else f"making {wanted.name}"):
        record = session.client.request("PUT", where, json=wanted.body)
    told(session, record)
    if not options["no_wait"]:
        record = compute_wait.ready(session, record)
    _say_made(session, record, options["no_wait"])
    if session.asked_for_data:
        emit(session, record)


def _say_made(session: Session, record: Dict[str, Any], early: bool) -> None:
    name = record["name"]
    if record["kind"] == "instance":
        told = "being made" if early else record["instance"]["state"]
        session.say(f"compute instance {name} is {told}; open it with: wherry compute open {name}")
        config = record["config"]
        if not config.get("idle_seconds") and not config.get("schedules"):
            session.say(
                "it runs until you stop it; to have it stopped when nobody uses it: "
                f"wherry compute update {name} --idle-time-before-shutdown-minutes 60"
            )
        return
    session.say(f"compute target {name} is {_what(record, early)}")


def _what(record: Dict[str, Any], early: bool) -> str:
    from .compute_wait import lacks_nodes

    done = "attached" if record["kind"] == "machine" else "there"
    if not early and lacks_nodes(record):
        done = f"known, but not all of its nodes are there: wherry compute show {record['name']}"
    return "being made" if early and record["provisioning_state"] == "Creating" else done


def _scale(options: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "min_instances": options["min_instances"],
        "max_instances": options["max_instances"],
        "idle_time_before_scale_down": options["idle"],
    }


def _asked(options: Dict[str, Any]) -> Dict[str, Any]:
    from .secret import ask

    found = {}
    if options["password"]:
        found["ssh_settings.admin_password"] = ask("Password", "--password")
    if options["passphrase"]:
        found["ssh_settings.ssh_private_key_passphrase"] = ask(
            "Passphrase of the key", "--passphrase"
        )
    return found


def _absolute(path: Optional[str]) -> Optional[str]:
    import os

    return path and os.path.abspath(os.path.expanduser(path))
