"""``wherry site``: where the nodes of clusters come from."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import click

from ..core.errors import WherryError
from .command import Group, pass_session
from .compute_path import names_one, one_name, site_path, the_name
from .compute_view import size_columns
from .duration import show_time
from .options import Existing
from .output import emit
from .session import Session
from .table import Column, layout, terminal_width

_STYLES = {
    "free": {"fg": "green"},
    "taken": {"fg": "blue"},
    "unreachable": {"fg": "red"},
    "set aside": {"fg": "red"},
}


@click.group(
    cls=Group,
    examples=[
        "wherry site create lab --host me@node1.lab --host me@node2.lab --key ~/.ssh/id_ed25519",
        "wherry compute create lab-cpu --location lab --max-instances 2",
        "wherry site list",
    ],
)
def site() -> None:
    """Name the places that clusters take their nodes from.

    A site is this machine (local), a pool of hosts that the server reaches over SSH, or an engine
    of containers. Sites belong to the server: every workspace may have clusters on them.
    """


def _hosts(function: Any) -> Any:
    options = [
        click.option(
            "--key",
            type=Existing(folder=False),
            metavar="FILE",
            help="The private key to log in with; the server keeps it, sealed.",
        ),
        click.option("--passphrase", is_flag=True, help="Ask for the key's passphrase."),
        click.option("--password", is_flag=True, help="Ask for a password to log in with."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@site.command(
    "create",
    examples=[
        "wherry site create lab --host me@node1.lab --host me@node2.lab:2222 --key ~/.ssh/lab",
        "wherry site create lab -f site.yml --password",
        "wherry site create boxes --containers --image python:3.12-slim",
    ],
)
@names_one("site")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="[USER@]ADDRESS[:PORT]",
    help="One of its hosts; may be repeated.",
)
@_hosts
@click.option(
    "--containers", is_flag=True, help="Nodes are containers of the Docker or podman found here."
)
@click.option("--engine", metavar="ADDRESS", help="Another engine, written as in DOCKER_HOST.")
@click.option("--image", metavar="IMAGE", help="What nodes are made of; it has Python and a shell.")
@click.option(
    "-f", "--file", "path", type=Existing(folder=False), metavar="FILE", help="The site as YAML."
)
@pass_session
def create(
    session: Session, name: Optional[str], named: Optional[str], path: Optional[str], **options: Any
) -> None:
    """Make a pool of hosts or an engine of containers a site, or replace what it is.

    A file may look like this; what a host does not declare is found when it is first used:

    \b
    name: lab
    username: me
    key: ~/.ssh/id_ed25519
    hosts:
      - node1.lab
      - {address: node2.lab, port: 2222, cores: 16, memory: 64GB, gpus: 2}
      - {address: node3.lab, username: root, key: ~/.ssh/root}

    Without --key and --password the server uses its own SSH agent and ~/.ssh. A file for
    containers says kind: container, and may have engine, image, cores, memory, gpus, volumes,
    network and price_per_hour (of one core).
    """
    from . import site_file
    from .progress import Progress

    which = one_name(name, named, "wherry site create NAME --host HOST")
    engine = {key: options[key] for key in ("containers", "engine", "image") if options[key]}
    wanted = site_file.read(path, which, options["hosts"], _secrets(options), engine)
    with Progress(session, f"looking at {wanted.name}"):
        record = session.client.request("PUT", site_path(wanted.name), json=wanted.body)
    session.say(_made(record))
    if record["kind"] == "container":
        _look_for_engine(session, wanted.name)
    if session.asked_for_data:
        emit(session, record)


@site.command("list", examples=["wherry site list", "wherry site list --output json"])
@pass_session
def list_(session: Session) -> None:
    """List the sites."""
    emit(session, session.client.get("/sites")["items"], _columns())


@site.command("show", examples=["wherry site show lab", "wherry site show lab -o yaml"])
@names_one("site")
@pass_session
def show(session: Session, name: Optional[str], named: Optional[str]) -> None:
    """Show a site with its hosts."""
    which = the_name(name, named, "wherry site show NAME")
    record = session.client.get(site_path(which))
    if session.output == "table" and session.query is None:
        session.write("\n".join(_lines(session, record)))
    else:
        emit(session, record)


@site.command(
    "update",
    examples=[
        "wherry site update lab --add-host me@node3.lab",
        "wherry site update lab --remove-host node1.lab",
        "wherry site update lab --key ~/.ssh/new",
    ],
)
@names_one("site")
@click.option(
    "--add-host", "added", multiple=True, metavar="HOST", help="One more; may be repeated."
)
@click.option(
    "--remove-host",
    "removed",
    multiple=True,
    metavar="ADDRESS[:PORT]",
    help="One that no cluster uses now; may be repeated.",
)
@_hosts
@pass_session
def update(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    added: Tuple[str, ...],
    removed: Tuple[str, ...],
    **options: Any,
) -> None:
    """Add or remove hosts, or change how the server logs in."""
    from . import site_file
    from .ending import Usage

    which = the_name(name, named, "wherry site update NAME --add-host HOST")
    secrets = _secrets(options)
    if not added and not removed and not secrets:
        raise Usage("nothing is to be changed", hint="such as --add-host me@node3.lab")
    body: Dict[str, Any] = {"secrets": secrets} if secrets else {}
    if added or removed:
        known = session.client.get(site_path(which))["config"].get("hosts") or []
        body["config"] = {"hosts": site_file.changed(which, known, added, removed)}
    record = session.client.patch(site_path(which), json=body)
    session.say(f"site {which} is changed")
    if session.asked_for_data:
        emit(session, record)


@site.command("delete", examples=["wherry site delete lab", "wherry site delete lab --yes"])
@names_one("site")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: Optional[str], named: Optional[str], yes: bool) -> None:
    """Forget a site that no cluster uses; its hosts are not touched."""
    from .job import confirm

    which = the_name(name, named, "wherry site delete NAME")
    session.client.get(site_path(which))
    confirm(f"Delete site {which}?", yes)
    session.client.delete(site_path(which))
    session.say(f"site {which} deleted")


@site.command("list-sizes", examples=["wherry site list-sizes lab"])
@names_one("site")
@pass_session
def list_sizes(session: Session, name: Optional[str], named: Optional[str]) -> None:
    """List the sizes that nodes of a site may have."""
    which = the_name(name, named, "wherry site list-sizes NAME")
    emit(session, session.client.get(f"{site_path(which)}/sizes")["items"], size_columns())


def _secrets(options: Mapping[str, Any]) -> Dict[str, str]:
    from ..sdk.compute.machine import read_key
    from .secret import ask

    found = {}
    if options["key"]:
        found["private_key"] = read_key(options["key"])
    if options["passphrase"]:
        found["passphrase"] = ask("Passphrase of the key", "--passphrase")
    if options["password"]:
        found["password"] = ask("Password", "--password")
    return found


def _columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row["name"])),
        Column("KIND", lambda row: str(row["kind"])),
        Column("HOSTS", lambda row: str(len(row["hosts"]) or ""), right=True),
        Column("FREE", lambda row: _counted(row, "free"), right=True),
        Column("TAKEN", lambda row: _counted(row, "taken"), right=True),
        Column("CREATED", lambda row: show_time(row.get("created_at")), drops=1),
        Column("PROBLEM", lambda row: str(row.get("problem") or ""), wraps=True),
    ]


def _lines(session: Session, record: Mapping[str, Any]) -> List[str]:
    facts = [
        ("name", record["name"]),
        ("kind", record["kind"]),
        ("hosts", _host_facts(record)),
        ("engine", record["config"].get("engine")),
        ("image", record["config"].get("image")),
        ("problem", record.get("problem")),
        ("created", show_time(record.get("created_at"))),
    ]
    lines = [f"{name:<13}{value}" for name, value in facts if value]
    if not record["hosts"]:
        return lines
    return [*lines, "", *layout(record["hosts"], _host_columns(), session, terminal_width())]


def _look_for_engine(session: Session, name: str) -> None:
    """A site may be made before its engine is there; whoever makes it should know."""
    from .progress import Progress

    try:
        with Progress(session, f"looking for the engine of {name}"):
            session.client.get(f"{site_path(name)}/sizes")
    except WherryError as error:
        session.say(f"nothing can be made there yet: {error.message}")


def _made(record: Mapping[str, Any]) -> str:
    if record["kind"] == "container":
        return f"nodes of site {record['name']} are containers of {record['config']['image']}"
    count = len(record["config"]["hosts"])
    return f"site {record['name']} has {count} host{'' if count == 1 else 's'}"


def _counted(record: Mapping[str, Any], state: str) -> str:
    return str(record["host_counts"][state]) if record["hosts"] else ""


def _host_facts(record: Mapping[str, Any]) -> str:
    counts: Mapping[str, int] = record["host_counts"]
    told = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    return f"{len(record['hosts'])} ({told})" if told else ""


def _host_columns() -> List[Column]:
    from .compute_view import address_of

    def amount(name: str) -> Any:
        return lambda row: "" if row.get(name) is None else f"{row[name]:g}"

    return [
        Column("HOST", lambda row: str(row["name"])),
        Column(
            "ADDRESS",
            lambda row: "" if address_of(row) == row["name"] else address_of(row),
            drops=5,
        ),
        Column("USER", lambda row: str(row["username"]), drops=4),
        Column("CPUS", amount("cpu"), right=True, drops=3),
        Column("MEMORY", _memory, right=True, drops=3),
        Column("GPUS", amount("gpu"), right=True, drops=3),
        Column("PRICE PER HOUR", amount("price_per_hour"), right=True, drops=5),
        Column("STATE", _state, style=lambda row: _STYLES.get(_state(row), {})),
        Column("TARGET", lambda row: str(row["target"] or "")),
        Column("RUN", lambda row: str(row["run_id"] or ""), drops=2),
        Column("REASON", lambda row: str(row["reason"] or ""), wraps=True),
    ]


def _state(host: Mapping[str, Any]) -> str:
    return str(host["state"])


def _memory(host: Mapping[str, Any]) -> str:
    from ..core.sizes import format_bytes

    return format_bytes(host["memory_bytes"]) if host.get("memory_bytes") else ""
