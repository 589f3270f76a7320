"""What OpenSSH's configuration says of a machine: its name, its port and the way to it."""

from __future__ import annotations

from dataclasses import replace

import asyncssh

from .ssh_host import DEFAULT_PORT, Host

_MOST_JUMPS = 8


def place_of(host: Host) -> tuple[str, int]:
    """The name and the port that are meant; the address may be an alias."""
    found = _options(host)
    return found.host_key_alias or found.host, host.port if _given(host) else found.port


def by_the_way(host: Host) -> Host:
    """With the machines on the way to it; one of those may be reached through others, too."""
    way = host.jump or _jump(host)
    while way.count(",") < _MOST_JUMPS:
        first = replace(host, jump=way).jumps()[:1]
        before = _jump(first[0]) if first else ""
        if not before or before in way.split(","):
            break
        way = f"{before},{way}"
    return replace(host, jump=way)


def _jump(host: Host) -> str:
    named = str(_options(host).tunnel or "")
    return "" if named.lower() == "none" else named


def _options(host: Host) -> asyncssh.SSHClientConnectionOptions:
    return asyncssh.SSHClientConnectionOptions(
        host=host.address,
        username=host.user or (),
        config=(),
        known_hosts=None,
        client_keys=None,
        agent_path=None,
    )


def _given(host: Host) -> bool:
    return host.port != DEFAULT_PORT
