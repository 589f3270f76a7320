"""What names a machine, a user and a key for SSH: nothing that a shell, ssh or a file would take
for more than a name.

OpenSSH's configuration may put addresses and users into commands (``ProxyCommand``).
"""

from __future__ import annotations

import re

from .errors import UserErrorException

_ADDRESS = re.compile(r"[^\W_][\w.:%-]{0,254}\Z|:[\w.:%]{1,99}\Z")
_USER = re.compile(r"(?!-)[^\s\x00-\x1f\x7f'`\";&<>|(){}$]{1,255}(?<!\\)\Z")
_HOST_KEY = re.compile(r"[a-z0-9][a-z0-9@.-]{1,99} [A-Za-z0-9+/]{16,10000}={0,3}\Z")
_MOST_JUMPS = 16


def check_address(text: str, name: str = "address") -> str:
    """
    >>> check_address("[::1]")
    '::1'
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if _ADDRESS.match(bare):
        return bare
    raise UserErrorException(
        f"{name} is {text[:100]!r}, which names no machine",
        hint="give a host's name or number, such as node1.lab or 10.0.0.5; "
        "user and port have their own fields",
    )


def check_user(text: str, name: str = "username") -> str:
    if not text or _USER.match(text):
        return text
    raise UserErrorException(
        f"{name} is {text[:100]!r}, which is no user's name", hint="give it as in: ssh USER@host"
    )


def check_jump(text: str) -> str:
    """One or several of ``user@host:port``, with commas."""
    if not text:
        return text
    places = text.split(",")
    if len(places) > _MOST_JUMPS:
        raise UserErrorException(f"jump names {len(places)} machines, more than {_MOST_JUMPS}")
    return ",".join(map(_check_place, places))


def check_host_key(text: str, name: str = "host_key") -> str:
    """Type and key, without what may be said behind it about whose it is."""
    if not text or _HOST_KEY.match(text):
        return text
    kind, _, rest = text.partition(" ")
    key, space, _ = rest.partition(" ")
    if space and "\n" not in text and _HOST_KEY.match(f"{kind} {key}"):
        return f"{kind} {key}"
    raise UserErrorException(
        f"{name} is {text[:100]!r}, which is no public key",
        hint="give type and key, as in /etc/ssh/ssh_host_ed25519_key.pub: ssh-ed25519 AAAA...",
    )


def check_no_private_key(text: str, name: str) -> str:
    """What is meant to be shown must not be what is meant to be kept; nothing of it is told."""
    if "PRIVATE KEY" not in text:
        return text
    raise UserErrorException(
        f"{name} holds a private key", hint="the public one is in the file that ends with .pub"
    )


def _check_place(given: str) -> str:
    place = given.strip()
    user, at, rest = place.rpartition("@")
    address, colon, port = rest.rpartition(":")
    if not colon or port.endswith("]"):
        address, port = rest, "22"
    if ":" in address and not address.startswith("["):
        raise UserErrorException(
            f"jump is {place[:100]!r}, where address and port cannot be told apart",
            hint="put the address into brackets: me@[fe80::1]:22",
        )
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:9]) < 65536:
        raise UserErrorException(
            f"jump is {place[:100]!r}, whose port is none", hint="write it like me@gate.lab:22"
        )
    check_address(address, "jump")
    if at and not user:
        raise UserErrorException(f"jump is {place[:100]!r}, which names no user before the @")
    check_user(user, "jump")
    return place
