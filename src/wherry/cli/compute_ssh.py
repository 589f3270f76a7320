"""``wherry compute connect-ssh``: a shell on a node, with the host key that the server knows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import click

from .command import Command, pass_session
from .compute_path import compute_path, names_one, the_name
from .ending import Failure, Usage
from .session import Session


@click.command(
    "connect-ssh",
    cls=Command,
    examples=[
        "wherry compute connect-ssh node1",
        "wherry compute connect-ssh lab-gpu --node lab-gpu-2",
        "wherry compute connect-ssh node1 -- nvidia-smi",
    ],
)
@names_one("compute")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--node", metavar="NODE", help="Which node.  [default: the first]")
@click.option(
    "-i", "--private-key-file-path", "key", metavar="FILE", help="The key to log in with."
)
@pass_session
def connect_ssh(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    command: Tuple[str, ...],
    node: Optional[str],
    key: Optional[str],
) -> None:
    """Open a shell on a node, or run a command there, with the ssh of this machine.

    You log in as yourself, with your own keys; the server's stay with it. The node must show the
    host key that the server knows. The exit code is that of ssh.
    """
    if named and name:
        command, name = (name, *command), None
    which = the_name(name, named, "wherry compute connect-ssh NAME")
    record = session.client.get(compute_path(session, which))
    code = _call(_place(record, node), key, list(command))
    if code:
        raise click.exceptions.Exit(code)  # ssh has said why, or the command has


def _place(record: Dict[str, Any], node: Optional[str]) -> Dict[str, Any]:
    """Where a node is: address, port, user, jump host and host key."""
    config = record.get("config") or {}
    if record["kind"] == "machine":
        return dict(config)
    elsewhere = record.get("location") != "local"
    nodes = [each for each in record.get("nodes") or [] if each.get("address") and elsewhere]
    if not nodes:
        raise Usage(
            f"{record['name']} has no node on another machine now",
            hint="its nodes are on the machine of the server"
            if record.get("nodes")
            else f"wherry compute list-nodes {record['name']}",
        )
    if node is None:
        return dict(nodes[0])
    for each in nodes:
        if node in (each.get("id"), each.get("name")):
            return dict(each)
    names = ", ".join(str(each.get("name")) for each in nodes)
    raise Usage(f"{record['name']} has no node {node!r}", hint=f"its nodes are {names}")


def _call(place: Dict[str, Any], key: Optional[str], command: List[str]) -> int:
    import os
    import shutil
    import subprocess
    import tempfile

    program = shutil.which("ssh")
    if program is None:
        raise Failure("there is no ssh on this machine", hint="install an OpenSSH client")
    with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
        words = [program, *arguments(place, key, os.path.join(folder, "known_hosts")), *command]
        return subprocess.call(words)


def arguments(place: Dict[str, Any], key: Optional[str], known_hosts: str) -> List[str]:
    """What ssh is given; the host key goes into a file of its own, which must hold."""
    address, port = str(place["address"]), int(place.get("port") or 22)
    words = ["-p", str(port)]
    if key:
        words += ["-i", key]
    if place.get("jump"):
        words += ["-J", str(place["jump"])]
    if place.get("host_key"):
        named = address if port == 22 else f"[{address}]:{port}"
        with open(known_hosts, "w", encoding="ascii") as file:
            file.write(f"{named} {place['host_key']}\n")
        words += ["-o", f"UserKnownHostsFile={known_hosts}", "-o", "StrictHostKeyChecking=yes"]
    user = f"{place['username']}@" if place.get("username") else ""
    return [*words, "--", user + address]
