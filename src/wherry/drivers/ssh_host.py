"""A machine that is reached by SSH: where it is, who we are there, how we prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wherry.core.compute_configs import secrets_for
from wherry.core.errors import UserErrorException

DEFAULT_PORT = 22


@dataclass(frozen=True)
class Host:
    """What is not given is looked up in ``~/.ssh/config``; so is ``address``, as an alias.

    ``private_key`` is the key itself or the path of its file. Without it and ``password``, the keys
    of the SSH agent and of ``~/.ssh`` are tried. ``host_key`` is the one that the machine must have
    (``ssh-ed25519 AAAA...``); without it, one that ``~/.ssh/known_hosts`` does not contradict is
    taken. ``jump`` is ``user@host:port`` of a machine on the way, or several with commas, reached
    with the same credentials, or those of this user if ``own_jumps``; ``jump_host_keys`` are
    theirs. ``python`` is the interpreter there.
    """

    address: str
    port: int = DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    host_key: str = ""
    jump: str = ""
    jump_host_keys: tuple[str, ...] = ()
    python: str = ""
    own_jumps: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any], secrets: Mapping[str, Any]) -> Host:
        """From what is stored of a compute target or of a host in a pool."""
        port = _port(config.get("port"))
        secrets = secrets_for({"address": config.get("address"), "port": port}, secrets)
        host = cls(
            address=str(config.get("address") or ""),
            port=port,
            user=str(config.get("username") or config.get("user") or ""),
            password=secrets["password"],
            private_key=secrets["private_key"],
            passphrase=secrets["passphrase"],
            host_key=str(config.get("host_key") or ""),
            jump=str(config.get("jump") or ""),
            jump_host_keys=tuple(config.get("jump_host_keys") or ()),
            python=str(config.get("python") or ""),
        )
        if not host.address or set(host.address) & set(" /@\0") or host.address.startswith("-"):
            raise UserErrorException(
                f"{host.address!r} is not the address of a machine",
                hint="give a name or an IP address; user and port have their own fields",
            )
        return host

    @property
    def where(self) -> tuple[str, int]:
        return self.address, self.port

    def jumps(self) -> list[Host]:
        """The machines on the way, the nearest first."""
        names = [name.strip() for name in self.jump.split(",") if name.strip()]
        keys = [*self.jump_host_keys, *[""] * len(names)]
        return [self._jump(name, key) for name, key in zip(names, keys, strict=False)]

    def _jump(self, name: str, key: str) -> Host:
        user, _, place = name.rpartition("@")
        address, colon, port = place.rpartition(":")
        if not colon or port.endswith("]"):
            address, port = place, ""
        own = self.own_jumps
        return replace(
            self,
            password="" if own else self.password,
            private_key="" if own else self.private_key,
            passphrase="" if own else self.passphrase,
            address=address.strip("[]"),
            port=_port(port),
            user=user,
            host_key=key,
            jump="",
            jump_host_keys=(),
        )

    @property
    def trial(self) -> str:
        return f"ssh {self} /bin/sh -c true"

    def __str__(self) -> str:
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        return f"{self.user}@{self.address}{port}" if self.user else f"{self.address}{port}"


def _port(value: object) -> int:
    if value in (None, "", 0):
        return DEFAULT_PORT
    try:
        port = int(str(value))
    except ValueError:
        port = 0
    if not 0 < port < 65536:
        raise UserErrorException(f"{value!r} is not a port", hint="give a number up to 65535")
    return port
