"""Two names of this machine, so that to a browser the page and notebooks are strangers.

What a notebook shows may run scripts, and scripts may do what every page of the same origin may.
The page under ``/view`` holds the owner's token, so the two never have the same.
"""

from __future__ import annotations

_VIEW, _INSTANCES = "127.0.0.1", "localhost"
_ON_LOOPBACK = {"127.0.0.1", "localhost", "0.0.0.0"}


class Names:
    """``bound`` is the address that the server listens on, ``instances`` the name that its owner
    gives to instances where it is not this machine's own.
    """

    def __init__(self, bound: str, instances: str = "") -> None:
        self._has_both = bound.lower() in _ON_LOOPBACK
        self._instances = _plain(instances)

    def for_instances(self, host: str) -> str | None:
        """The host under which notebooks are, if it is another one than this."""
        name, port = _split(host)
        if self._has_both and _is_loopback(name):
            return None if name == _INSTANCES else _INSTANCES + port
        if self._instances and _plain(host) != self._instances:
            return self._instances
        return None

    def for_view(self, host: str) -> str | None:
        """The host under which the page is, if it is another one than this."""
        name, port = _split(host)
        return _VIEW + port if self._has_both and name == _INSTANCES else None

    def is_for_instances_alone(self, host: str) -> bool:
        return bool(self._instances) and _plain(host) == self._instances


def _plain(host: str) -> str:
    """As browsers say it: without a port that goes without saying."""
    return host.strip().lower().removesuffix(":443").removesuffix(":80")


def _split(host: str) -> tuple[str, str]:
    """The name, and the port with its colon."""
    name, colon, port = host.strip().lower().rpartition(":")
    if colon and port.isdecimal():
        return name.removesuffix("."), colon + port
    return host.strip().lower().removesuffix("."), ""


def _is_loopback(name: str) -> bool:
    return name in (_INSTANCES, "[::1]") or name.startswith("127.")
