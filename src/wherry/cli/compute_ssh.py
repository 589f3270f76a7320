"""``wherry compute connect-ssh``: a shell on a node, with the host key that the server knows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import click

from .command import Command, completing, pass_session
from .compute_path import compute_path, names_one, the_name
from .ending import Failure, Usage
from .session import Session

_A_MOMENT_S = 300
_A_DAY_S = 86_400
_HERE = ("127.0.0.1", "::1", "localhost")


@click.command(
    "connect-ssh",
    cls=Command,
    examples=[
        "wherry compute connect-ssh node1",
        "wherry compute connect-ssh lab-gpu --node lab-gpu-2",
        "wherry compute connect-ssh node1 -- nvidia-smi",
        "wherry compute connect-ssh mydsvm --print",
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
@click.option("--jump", metavar="HOST", help="A host to go through first, such as me@gate.lab.")
@click.option(
    "--print",
    "--dry-run",
    "only_print",
    is_flag=True,
    help="Print the command and do not run it; what it needs is kept in WHERRY_HOME/ssh.",
)
@pass_session
def connect_ssh(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    command: Tuple[str, ...],
    node: Optional[str],
    key: Optional[str],
    jump: Optional[str],
    only_print: bool,
) -> None:
    """Open a shell on a node, or run a command there, with the ssh of this machine.

    You log in as yourself, with your own keys; the server's stay with it. A machine that the server
    has made with containers lets you in by a certificate, which the server gives you for the
    moment. The node must show the host key that the server knows. The exit code is that of ssh.
    """
    import os
    import shlex
    import shutil
    import subprocess
    import tempfile

    if named and name:
        command, name = (name, *command), None
    which = the_name(name, named, "wherry compute connect-ssh NAME")
    path = compute_path(session, which)
    place = _place(session.client.get(path), node)
    place["jump"] = ",".join(filter(None, [jump, place.get("jump")]))
    _check_way(session, which, place)
    program = shutil.which("ssh")
    if program is None:
        raise Failure("there is no ssh on this machine", hint="install an OpenSSH client")
    if only_print:
        kept = os.path.join(session.settings.home, "ssh", session.workspace.name, which)
        words = ["ssh", *_words(session, path, place, key, kept, _A_DAY_S), *command]
        session.write(" ".join(map(shlex.quote, words)))
        return
    with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
        words = [program, *_words(session, path, place, key, folder, _A_MOMENT_S), *command]
        code = subprocess.call(words)
    if code:
        raise click.exceptions.Exit(code)  # ssh has said why, or the command has


def _words(
    session: Session, path: str, place: Dict[str, Any], key: Optional[str], folder: str, valid: int
) -> List[str]:
    import os

    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not place.get("certified"):
        return arguments(place, key, folder)
    mine = os.path.expanduser(key) if key else _new_key(folder)
    body = {"public_key": _public(mine), "seconds": valid}
    signed = os.path.join(folder, "certificate.pub")
    with open(signed, "w", encoding="ascii") as file:
        file.write(session.client.post(f"{path}/certificate", json=body)["certificate"] + "\n")
    only = ["-o", f"CertificateFile={signed}", "-o", "IdentitiesOnly=yes"]
    return [*only, *arguments(place, mine, folder)]


def _new_key(folder: str) -> str:
    """One that is thrown away with the folder, or kept in it."""
    import os
    import shutil
    import subprocess

    program = shutil.which("ssh-keygen")
    if program is None:
        raise Failure("there is no ssh-keygen on this machine", hint="install an OpenSSH client")
    path = os.path.join(folder, "key")
    if not os.path.exists(path):
        subprocess.run([program, "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def _public(path: str) -> str:
    try:
        with open(f"{path}.pub", encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is no text").lower()
        raise Usage(
            f"the public key {path}.pub cannot be read: {reason}",
            hint=f"ssh-keygen -y -f {path} > {path}.pub makes it",
        ) from None


def _check_way(session: Session, name: str, place: Dict[str, Any]) -> None:
    """A machine of an engine listens on the loopback address there, next to the server."""
    from urllib.parse import urlsplit

    server = urlsplit(session.client.url).hostname or ""
    if place.get("certified") and not place["jump"] and server not in _HERE:
        raise Usage(
            f"{name} listens on the loopback address of the server's machine, {server}",
            hint=f"go through it: --jump you@{server}",
        )


def _place(record: Dict[str, Any], node: Optional[str]) -> Dict[str, Any]:
    """Where a node is: address, port, user, jump host and host key."""
    config = record.get("config") or {}
    if record["kind"] == "machine":
        return dict(config)
    elsewhere = record.get("location") != "local"
    present = record.get("nodes") or []
    nodes = [each for each in present if each.get("port") and elsewhere]
    if not nodes and elsewhere and any(each.get("address") for each in present):
        raise Usage(
            f"nodes of {record['name']} are bare containers, without SSH",
            hint="a machine has it: wherry compute create NAME --type virtualmachine "
            f"--location {record['location']}",
        )
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
