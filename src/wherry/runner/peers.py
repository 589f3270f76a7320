"""Whose program answers at a port of this machine's own loopback address.

On another machine than the server's, that port is forwarded by programs of the user's own. When
they end, any other user of the machine may listen there; whoever does must not be sent a token.
"""

from __future__ import annotations

import os

from .light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterator, List, Tuple

_LISTENS = "0A"
_ANYWHERE = ("00000000", "0" * 32)
_MAPPED = "0000000000000000FFFF0000"
_NOBODY = 65534
_WHOLE_MAP = "0 0 4294967295"


def is_strange(connected: Any, more: str = "") -> bool:
    """Whether a connection leads to a program of another user, who is not root.

    ``more`` is the number of one who may answer besides. Where nothing can be found out, because
    the system does not tell or the address is not this machine's own, nothing is strange.
    """
    here, there = connected.getsockname(), connected.getpeername()
    if not there[0].startswith("127."):
        return False
    try:
        sockets = [*_sockets("/proc/net/tcp"), *_sockets("/proc/net/tcp6")]
    except OSError:
        return False
    trusted = {0, os.getuid(), *([int(more)] if more.isdigit() else [])}
    if _maps_users():
        trusted.add(_NOBODY)
    owners = _owners(sockets, _place(here), _place(there))
    return not owners or not trusted.issuperset(owners)


def _owners(sockets: List[Tuple[str, ...]], here: str, there: str) -> List[int]:
    """Of the other end; while nobody has taken that, of those who listen."""
    for local, remote, _, user, inode in sockets:
        if (_short(local), _short(remote)) == (there, here) and inode != "0":
            return [int(user)]
    port = there.rpartition(":")[2]
    places = (there, *(f"{address}:{port}" for address in _ANYWHERE))
    return [
        int(user)
        for local, _, state, user, _ in sockets
        if state == _LISTENS and _short(local) in places
    ]


def _sockets(path: str) -> Iterator[Tuple[str, ...]]:
    """Local and remote address, state, user and inode of each."""
    try:
        with open(path, encoding="ascii") as file:
            lines = file.readlines()[1:]
    except FileNotFoundError:
        if path.endswith("6"):
            return
        raise
    for line in lines:
        words = line.split()
        yield words[1], words[2], words[3], words[7], words[9]


def _place(address: Any) -> str:
    """As the kernel writes it, whose numbers are in the machine's own order."""
    import sys

    numbers = [f"{int(each):02X}" for each in address[0].split(".")]
    if sys.byteorder == "little":
        numbers.reverse()
    return f"{''.join(numbers)}:{address[1]:04X}"


def _short(place: str) -> str:
    """An address of four numbers that is written as one of sixteen."""
    return place[len(_MAPPED) :] if place.startswith(_MAPPED) else place


def _maps_users() -> bool:
    """Whether users have other numbers here, as in a container."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return " ".join(file.read().split()) != _WHOLE_MAP
    except OSError:
        return False
