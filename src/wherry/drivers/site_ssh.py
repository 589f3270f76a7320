"""A pool of machines that are reached by SSH: a node is one of them, taken and given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from wherry.core.compute_configs import HostConfig
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.core.sizes import format_bytes
from wherry.core.vm_sizes import Size

from . import registry
from .base import Driver
from .sites import ANYTHING, Machine
from .ssh_host import Host

if TYPE_CHECKING:
    from .ssh import SshDriver


class Claims(Protocol):
    """Who has which host: kept where all servers see it."""

    def taken(self) -> Mapping[str, Mapping[str, Any]]:
        """The configuration of the host of each node that has one."""
        ...

    def take(self, node_id: str, hosts: Sequence[HostConfig]) -> HostConfig | None:
        """The first of these that nobody has, or the one that the node has already."""
        ...

    def give_back(self, node_id: str) -> None: ...

    def home(self, home: str) -> Mapping[str, Any]:
        """The address and port of the host that a home lies on; empty for one that is nowhere."""
        ...

    def settle(self, home: str, host: HostConfig) -> None:
        """A home is made on that host."""
        ...

    def pin(self, host: HostConfig, keys: Mapping[str, Any]) -> None:
        """Keep the host keys that were found: others are refused from now on."""
        ...

    def saw(self, host: HostConfig, owned: Resources) -> None:
        """It answered, and has that."""
        ...

    def missed(self, host: HostConfig, error: TargetUnavailableError) -> None:
        """It could not be used."""
        ...

    def trouble(self, host: HostConfig) -> float:
        """When it was last missed, if it was not seen since; 0 for others."""
        ...

    def owned(self, host: HostConfig) -> Resources | None:
        """What it had when it was last seen."""
        ...


class SshSite:
    """``root`` is this server's folder on each host, ``server`` its address, to which a way back is
    made.
    """

    def __init__(
        self,
        name: str,
        hosts: Sequence[HostConfig],
        secrets: Mapping[str, str],
        claims: Claims,
        root: str,
        server: Callable[[], str],
    ) -> None:
        self._name = name
        self._hosts = list(hosts)
        self._secrets = secrets
        self._claims = claims
        self._root = root
        self._server = server

    def sizes(self) -> Sequence[Size]:
        """One for each kind of host. What is not declared counts as one CPU."""
        return sorted({_size(host) for host in self._hosts}, key=lambda size: size.name)

    def at_most(self, size: Size) -> Resources:
        """What was neither declared nor seen yet may be anything."""
        hosts = [host for host in self._hosts if _size(host) == size]
        each = [_could_have(host, self._claims.owned(host)) for host in hosts]
        return Resources(
            max((owned.cpu for owned in each), default=size.cpu),
            max((owned.memory_bytes for owned in each), default=size.memory_bytes),
            max((owned.gpu for owned in each), default=size.gpu),
        )

    def room(self, size: Size) -> int:
        return len(self._free(size))

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        return sum(each == size for each in promised)

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        lies = self._claims.home(home) if home else {}
        host = self._at_home(node_id, lies) if lies else self._any(node_id, size)
        try:
            found = registry.preflight("ssh")(
                self._host(host.to_dict()), self._root, self._server()
            )
        except TargetUnavailableError as error:
            self._claims.missed(host, error)
            self._claims.give_back(node_id)
            raise
        keys: dict[str, Any] = {
            "host_key": found.host_key,
            "jump_host_keys": list(found.jump_host_keys),
        }
        if replace(host, **keys) != host:
            self._claims.pin(host, keys)
            self._hosts = [replace(h, **keys) if h == host else h for h in self._hosts]
        machine = _machine(replace(host, **keys), found.resources, found.gpus)
        self._claims.saw(host, machine.resources)
        if not home:
            return machine
        self._claims.settle(home, host)
        folder = self._driver(machine).house(home)
        return replace(machine, config={**machine.config, "home": folder})

    def forget(self, home: str) -> None:
        """One whose host is in the site no longer is out of reach, and is not ours any more."""
        lies = self._claims.home(home)
        host = self._listed(lies) if lies else None
        if host is not None:
            self._driver(_machine(host, Resources(), ())).forget(home)

    def _any(self, node_id: str, size: Size) -> HostConfig:
        """Hosts that failed come last, the one that failed last after the others."""
        fitting = [host for host in self._hosts if _size(host) == size]
        host = self._claims.take(node_id, sorted(fitting, key=self._claims.trouble))
        if host is None:
            raise TargetUnavailableError(
                f"all hosts of size {size.name} of site {self._name!r} are in use",
                hint="add hosts to the site, or wait until a cluster gives one back",
            )
        return host

    def _at_home(self, node_id: str, lies: Mapping[str, Any]) -> HostConfig:
        called = f"{lies['address']}:{lies['port']}"
        host = self._listed(lies)
        if host is None:
            raise TargetUnavailableError(
                f"its home lies on {called}, which is not in site {self._name!r} any more",
                hint="put the host back into the site, or delete the compute target",
            )
        if self._claims.take(node_id, [host]) is None:
            raise TargetUnavailableError(
                f"its home lies on {called}, which another compute target is using",
                hint="wait until that one gives it back",
            )
        return host

    def _listed(self, lies: Mapping[str, Any]) -> HostConfig | None:
        place = (lies["address"], lies["port"])
        return next((host for host in self._hosts if _place(host) == place), None)

    def remove(self, node_id: str) -> None:
        """Nothing of ours runs there any more; the host is the next one's."""
        self._claims.give_back(node_id)

    def machines(self) -> Mapping[str, Machine]:
        return {
            node_id: Machine(str(config.get("name") or config["address"]), Resources(), (), config)
            for node_id, config in self._claims.taken().items()
        }

    def driver(self, node_id: str, machine: Machine) -> Driver:
        del node_id
        return self._driver(machine)

    def _driver(self, machine: Machine) -> SshDriver:
        owned = machine.resources
        driver: SshDriver = registry.load("ssh")(
            self._host(self._as_known_now(machine.config)),
            self._root,
            self._server(),
            cpus=owned.cpu,
            memory_bytes=owned.memory_bytes,
            gpus=owned.gpu,
        )
        return driver

    def _as_known_now(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the site says of a host by now, a new host key among it."""
        place = (config["address"], config["port"])
        found = next((host for host in self._hosts if _place(host) == place), None)
        said = found.to_dict() if found is not None else {}
        host_key = said.get("host_key") or config.get("host_key", "")
        return {**config, **said, "host_key": host_key}

    def _free(self, size: Size) -> list[HostConfig]:
        taken = {(each["address"], each["port"]) for each in self._claims.taken().values()}
        return [h for h in self._hosts if _size(h) == size and _place(h) not in taken]

    def _host(self, config: Mapping[str, Any]) -> Host:
        return Host.of(config, self._secrets)


def _place(host: HostConfig) -> tuple[str, int]:
    return host.address, host.port


def _size(host: HostConfig) -> Size:
    cpu, memory, gpu = host.cores or 1.0, host.memory_bytes or 0, host.gpus or 0
    parts = [f"cpu{cpu:g}", *([f"mem{format_bytes(memory).replace(' ', '')}"] if memory else [])]
    name = "-".join([*parts, *([f"gpu{gpu}"] if gpu else [])])
    return Size(name, cpu, memory, gpu, host.price_per_hour)


def _could_have(host: HostConfig, seen: Resources | None) -> Resources:
    found = seen or ANYTHING
    return Resources(
        found.cpu if host.cores is None else host.cores,
        found.memory_bytes if host.memory_bytes is None else host.memory_bytes,
        found.gpu if host.gpus is None else host.gpus,
    )


def _machine(host: HostConfig, found: Resources, gpus: Sequence[str]) -> Machine:
    """What was declared of a host counts, else what was found there."""
    owned = Resources(
        found.cpu if host.cores is None else host.cores,
        found.memory_bytes if host.memory_bytes is None else host.memory_bytes,
        len(gpus) if host.gpus is None else min(host.gpus, len(gpus)),
    )
    return Machine(host.name, owned, tuple(gpus[: owned.gpu]), host.to_dict())
