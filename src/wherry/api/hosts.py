"""The names under which the server answers.

A page that someone else made can let its own name lead to this machine (DNS rebinding) and would
then read our answers as its own. Its requests still say which name the browser was given.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address

_EVERY_ADDRESS = {"0.0.0.0", "::"}
_MOST_KNOWN = 100


class Hosts:
    """``bound`` is the address that the server listens on, ``more`` other names of it."""

    def __init__(self, bound: str, more: str = "") -> None:
        given = {name.strip().lower() for name in more.split(",") if name.strip()}
        self._any_address = bound in _EVERY_ADDRESS
        self._any_name = "*" in given
        self._names = {"localhost", bound.lower(), *given}
        if self._any_address:
            self._names.add(socket.gethostname().lower())
        self._known: set[bytes] = {b""}  # no browser leaves it out

    def allows(self, header: bytes) -> bool:
        """Whether a request with this ``Host`` is meant for this server."""
        if header in self._known:
            return True
        allowed = self._any_name or self._allows(_name(header.decode("latin-1")))
        if allowed and len(self._known) < _MOST_KNOWN:
            self._known.add(header)
        return allowed

    def _allows(self, name: str) -> bool:
        if name in self._names:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback


def _name(host: str) -> str:
    """Without the port, brackets and the dot that ends a full name."""
    host = host.strip().lower()
    if host.startswith("["):
        name, closed, _ = host[1:].partition("]")
        return name if closed else host
    return host.partition(":")[0].removesuffix(".")
