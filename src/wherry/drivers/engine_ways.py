"""The way to an engine on another machine: its socket, forwarded over SSH to one of ours."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from urllib.parse import urlsplit

from wherry.core.errors import TargetUnavailableError

from . import agent_lines, ssh_connection
from .forwarding import Forwarding
from .places import CONNECT_S
from .short_folder import ShortFolder
from .ssh_host import Host

_OPEN_S = 4 * CONNECT_S
# Where engines listen that nobody names; the same as on this machine.
_FIND = """\
own=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
for each in /var/run/docker.sock "$own/docker.sock" "$own/podman/podman.sock" \
/run/podman/podman.sock
do [ -S "$each" ] && { echo "$each"; exit; }; done; echo"""


class Ways:
    """One connection for each address, made again when it is needed and lost."""

    def __init__(self) -> None:
        self._folder: ShortFolder | None = None
        self._open: dict[str, Forwarding] = {}
        self._opening = threading.Lock()

    def to(self, address: str) -> str:
        """Where the engine of ``ssh://user@host:port/socket`` is to be found here, always the same.

        Raises ``TargetUnavailableError`` where there is no way.
        """
        with self._opening:
            path = self._path(address)
            way = self._open.setdefault(path, Forwarding(path))
            if way.lost:
                agent_lines.lines.loop.run(_lead(way, address), _OPEN_S)
        return f"unix://{path}"

    def _path(self, address: str) -> str:
        """Short, since a socket's path must be; in a folder that is ours alone."""
        if self._folder is None or not os.path.isdir(self._folder.path):
            self._folder = ShortFolder()
            atexit.register(self._folder.remove)
        name = hashlib.sha256(address.encode()).hexdigest()[:16]
        return f"{self._folder.path}/{name}"


async def _lead(way: Forwarding, address: str) -> None:
    where = urlsplit(address)
    host = Host.of({"address": where.hostname, "port": where.port, "user": where.username}, {})
    opened = await ssh_connection.connect(host)
    try:
        there = where.path if where.path not in ("", "/") else await _found(opened, host)
        await way.lead(opened.connection, there)
    except BaseException:
        await opened.close()
        raise


async def _found(opened: ssh_connection.Opened, host: Host) -> str:
    process = await opened.start(_FIND)
    line = (await process.read_line()).decode("utf-8", "replace").strip()
    process.close()
    if not line.startswith("/"):
        raise TargetUnavailableError(
            f"no container engine has a socket on {host}",
            hint="start Docker or podman's socket there, or name it: ssh://user@host/path/to.sock",
            cause="engine",
        )
    return line


ways = Ways()
