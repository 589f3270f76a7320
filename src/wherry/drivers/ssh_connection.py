"""One SSH connection to a machine, opened; or a sentence that says precisely why not."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncssh

from wherry.core.errors import TargetUnavailableError

from . import ssh_config, ssh_keys
from .places import CONNECT_S, RefusedError
from .ssh_host import DEFAULT_PORT, Host

# It tells every step of every connection, with the whole command.
logging.getLogger("asyncssh").setLevel(logging.WARNING)

_KEEPALIVE_S = 15
_KEEPALIVES = 3


class Opened:
    """A connection, those that it goes through, and the keys that the machines showed."""

    def __init__(self, connections: list[asyncssh.SSHClientConnection], keys: list[str]) -> None:
        self.connection = connections[-1]
        self.host_key = keys[-1]
        self.jump_host_keys = tuple(keys[:-1])
        self._connections = connections

    async def start(self, command: str) -> _Process:
        with _told_as_os_error():
            return _Process(await self.connection.create_process(command, encoding=None))

    async def forward(self, port: int, address: str, to: int) -> int:
        try:
            listener = await self.connection.forward_remote_port("127.0.0.1", port, address, to)
        except (asyncssh.ChannelListenError, asyncssh.Error) as error:
            raise RefusedError(str(error)) from None
        return int(listener.get_port())

    async def close(self) -> None:
        for connection in reversed(self._connections):
            connection.abort()
        for connection in reversed(self._connections):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(connection.wait_closed(), 1.0)


class _Process:
    """As ``places.Process``."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._process = process

    def write(self, data: bytes) -> None:
        with _told_as_os_error():
            self._process.stdin.write(data)

    async def read_exactly(self, size: int) -> bytes:
        with _told_as_os_error():
            return await self._process.stdout.readexactly(size)

    async def read_line(self) -> bytes:
        with _told_as_os_error():
            return await self._process.stdout.readline()

    async def read_words(self) -> bytes:
        with _told_as_os_error():
            return await self._process.stderr.read(4096)

    def close(self) -> None:
        self._process.close()

    async def wait_closed(self) -> None:
        await self._process.wait_closed()


@contextmanager
def _told_as_os_error() -> Iterator[None]:
    try:
        yield
    except asyncssh.Error as error:
        raise ConnectionError(error.reason) from None


async def connect(host: Host) -> Opened:
    """All steps within ``CONNECT_S`` each; nothing stays open where one fails."""
    connections: list[asyncssh.SSHClientConnection] = []
    keys: list[str] = []
    try:
        for each in _hosts(host):
            client = _Client(each)
            connections.append(await _connect(each, client, connections[-1:]))
            keys.append(ssh_keys.text_of(client.key) if client.key else "")
    except BaseException:
        for connection in connections:
            connection.abort()
        raise
    return Opened(connections, keys)


def _hosts(host: Host) -> list[Host]:
    """The machines on the way, and the machine itself."""
    try:
        return [*ssh_config.by_the_way(host).jumps(), host]
    except ValueError as error:
        raise _failed(
            host,
            "config",
            f"~/.ssh/config of the server's user cannot be read: {error}",
            "mend the line that it names",
        ) from None


class _Client(asyncssh.SSHClient):
    """Remembers how far it came: the same error means another thing at another step."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.connection: asyncssh.SSHClientConnection | None = None
        self.key: asyncssh.SSHKey | None = None
        self.key_problem = ""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.key = key
        self.key_problem = ssh_keys.problem_with(self._host, key, [host, addr], port)
        return not self.key_problem

    @property
    def speaks_ssh(self) -> bool:
        return bool(self.connection and self.connection.get_extra_info("server_version"))


async def _connect(
    host: Host, client: _Client, through: list[asyncssh.SSHClientConnection]
) -> asyncssh.SSHClientConnection:
    options = {**_options(host), "tunnel": through[0] if through else None}
    try:
        return await asyncio.wait_for(
            asyncssh.connect(
                host.address,
                client_factory=lambda: client,
                login_timeout=CONNECT_S,
                keepalive_interval=_KEEPALIVE_S,
                keepalive_count_max=_KEEPALIVES,
                **options,
            ),
            CONNECT_S,
        )
    except (TimeoutError, OSError, asyncssh.Error, ValueError) as error:
        raise _explained(host, client, error) from None


def _options(host: Host) -> dict[str, Any]:
    """Only what was given: the rest is OpenSSH's configuration to say."""
    options: dict[str, Any] = {
        "known_hosts": ([], [], []),  # ours to check: a callback is asked
        "server_host_key_algs": ssh_keys.algorithms(host),
        "gss_host": None,
        "agent_forwarding": False,
    }
    if host.port != DEFAULT_PORT:
        options["port"] = host.port
    if host.user:
        options["username"] = host.user
    if host.private_key or host.password:
        options["client_keys"] = [ssh_keys.private_key(host)] if host.private_key else None
        options["password"] = host.password or None
        options["agent_path"] = None
    elif host.passphrase:
        options["passphrase"] = host.passphrase
    return options


def _explained(host: Host, client: _Client, error: Exception) -> TargetUnavailableError:
    if isinstance(error, (OSError, asyncio.TimeoutError)) and client.connection is None:
        return _unreached(host, error)
    if isinstance(error, asyncssh.ChannelOpenError):
        return _failed(
            host,
            "jump",
            f"the machine before it on the way cannot reach {host}: {error.reason or error}",
            "look at jump, and at AllowTcpForwarding in that machine's sshd_config",
        )
    if client.key_problem:
        return _failed(
            host,
            "host_key",
            f"the host key of {host} is another than expected: {client.key_problem}",
            "someone may be between you and the machine. If it was set up anew, detach it and "
            "attach it again",
        )
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return _failed(host, "host_key", f"the host key of {host} is not trusted: {error.reason}")
    if isinstance(error, asyncssh.PermissionDenied):
        return _denied(host, client)
    if not client.speaks_ssh:
        return _failed(
            host,
            "not_ssh",
            f"something answers at port {host.port} of {host.address}, but does not speak SSH",
            "give the port of sshd; one with too many connections (MaxStartups) hangs up, too",
        )
    if isinstance(error, asyncio.TimeoutError):
        return _failed(host, "slow", f"{host} did not let us in within {CONNECT_S:.0f} s")
    reason = getattr(error, "reason", "") or str(error)
    return _failed(host, "ssh", f"{host} closed the connection: {reason}")


def _unreached(host: Host, error: Exception) -> TargetUnavailableError:
    if isinstance(error, socket.gaierror):
        return _failed(
            host,
            "name",
            f"the name {host.address} cannot be resolved: {(error.strerror or '').lower()}",
            "give a name that this server's machine can resolve, or an IP address",
        )
    number = _number(error)
    if number == errno.ECONNREFUSED:
        return _failed(
            host,
            "port_closed",
            f"nothing listens at port {host.port} of {host.address}: connection refused",
            "start sshd there, or give the port that it listens on",
        )
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return _failed(
            host,
            "port_filtered",
            f"port {host.port} of {host.address} did not answer for {CONNECT_S:.0f} s",
            "the machine is off, or a firewall drops what is sent there",
        )
    reason = os.strerror(number).lower() if number else str(error)
    return _failed(host, "network", f"{host.address} cannot be reached: {reason}")


def _number(error: Exception) -> int:
    """Of the error, or of the last of several: a name may have several addresses."""
    told = re.findall(r"\[Errno (\d+)\]", str(error))
    return getattr(error, "errno", None) or (int(told[-1]) if told else 0)


def _denied(host: Host, client: _Client) -> TargetUnavailableError:
    user = host.user or (client.connection and client.connection.get_extra_info("username")) or "?"
    return _failed(
        host,
        "credentials",
        f"{host.address} refused user {user!r}: {_tried(host)}",
        "look at the user's name and the password"
        if host.password and not host.private_key
        else "look at the user's name, and whether the key is in ~/.ssh/authorized_keys there",
    )


def _tried(host: Host) -> str:
    tried = []
    if host.private_key:
        tried.append(f"the private key {ssh_keys.fingerprint(ssh_keys.private_key(host))}")
    if host.password:
        tried.append("a password")
    if not tried:
        return "the keys of the SSH agent and of ~/.ssh were tried"
    return f"{' and '.join(tried)} {'were' if len(tried) > 1 else 'was'} tried"


def _failed(host: Host, cause: str, sentence: str, hint: str = "") -> TargetUnavailableError:
    return TargetUnavailableError(sentence, hint=hint or None, cause=cause, address=host.address)
