"""``wherry compute connect-ssh``: a shell on a node, with the host key that the server knows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import click

from .command import Command, completing, pass_session
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
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=completing("nodes"),
    help="Which node.  [default: the first]",
)
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
    import shutil
    import subprocess
    import tempfile

    program = shutil.which("ssh")
    if program is None:
        raise Failure("there is no ssh on this machine", hint="install an OpenSSH client")
    with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
        words = [program, *arguments(place, key, folder), *command]
        return subprocess.call(words)


def arguments(place: Dict[str, Any], key: Optional[str], folder: str) -> List[str]:
    """What ssh is given; the host keys go into files of their own, which must hold."""
    import os

    words = ["-p", str(place["port"])] if place.get("port") not in (None, 0, 22) else []
    if key:
        words += ["-i", key]
    if place.get("jump"):
        words += ["-J", str(place["jump"])]
    known = _known(place)
    if known:
        path = os.path.join(folder, "config")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_configuration(known, folder))
        words += ["-F", path]
    user = f"{place['username']}@" if place.get("username") else ""
    return [*words, "--", user + str(place["address"])]


def _known(place: Dict[str, Any]) -> Dict[str, str]:
    """The host keys of the machine and of those on the way, by the names that ssh is given."""
    jumps = [name for name in str(place.get("jump") or "").split(",") if name]
    pairs = [*zip(map(_bare, jumps), place.get("jump_host_keys") or [])]
    pairs.append((str(place["address"]), place.get("host_key")))
    return {name: str(key) for name, key in pairs if key}


def _bare(text: str) -> str:
    """The name alone, without user and port."""
    name = text.strip().rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


def _configuration(known: Dict[str, str], folder: str) -> str:
    """For machines whose keys are known, then what ssh would read by itself.

    ssh hands such a file on to the ssh that it starts for a machine on the way; options of the
    command line it does not.
    """
    import os

    lines = []
    for number, (name, key) in enumerate(known.items()):
        path = os.path.join(folder, f"known_hosts_{number}")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"wherry-{number} {key}\n")
        lines += [
            f'Host "{name}"',
            f"  HostKeyAlias wherry-{number}",
            f'  UserKnownHostsFile "{path}"',
            "  StrictHostKeyChecking yes",
        ]
    return "\n".join([*lines, "Host *", "Include ~/.ssh/config /etc/ssh/ssh_config", ""])
