"""An engine of containers as a site: a node is a container with its share of CPUs and memory."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from wherry.containers import gpus
from wherry.containers.container import remove_named
from wherry.containers.contexts import chosen
from wherry.containers.engine import Engine, find
from wherry.containers.error import ContainerError, EngineError, is_full_disk
from wherry.containers.images import Images
from wherry.core.compute_configs import ContainersConfig
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.core.vm_sizes import Size, catalogue

from . import container_connection, registry
from .base import Driver
from .container_node import ContainerNode
from .container_place import ContainerPlace
from .sites import Machine

log = logging.getLogger(__name__)

NODE, SERVER, SITE, HOME = "wherry.node", "wherry.server", "wherry.site", "wherry.home"
CPU, MEMORY, GPUS = "wherry.cpu", "wherry.memory", "wherry.gpus"

# The shell is the first process: it takes in whatever loses its parent, and ends when told to.
WAIT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
_NOT_THERE, _IN_USE = 404, 409
_MOST_PROCESSES = 4096
_CACHE = "/var/cache/wherry"
OVER_SSH = "ssh"
_HOME = "/home/wherry"


class ContainerSite:
    """``server_id`` tells this server's containers from those of others on the same engine.

    ``root`` is the folder of attempts in a node, ``locks`` one of this server's own, and ``server``
    its address.
    """

    def __init__(
        self,
        name: str,
        config: ContainersConfig,
        server_id: str,
        root: str,
        locks: str,
        server: Callable[[], str],
    ) -> None:
        self.name = name
        self.config = config
        self.root = root
        self.locks = locks
        self.server = server
        self._server_id = server_id

    @property
    def _cache(self) -> str:
        return f"wherry-cache-{self._server_id}"

    @property
    def address(self) -> str:
        """The engine that was named, here or for the server's user; empty for the usual one."""
        named = self.config.engine
        variables = {**os.environ, "DOCKER_HOST": named} if named else os.environ
        return chosen(variables, over_ssh=True)

    def engine(self) -> Engine:
        address = self.address
        if urlsplit(address).scheme == OVER_SSH:
            address = registry.ways(OVER_SSH).to(address)
        variables = {"DOCKER_HOST": address} if address else os.environ
        return find(variables, f"site {self.name!r}")

    def sizes(self) -> Sequence[Size]:
        price = self.config.price_per_hour
        return [
            Size(size.name, size.cpu, size.memory_bytes, size.gpu, round(price * size.cpu, 6))
            for size in catalogue(self._total())
        ]

    def room(self, size: Size) -> int:
        held = sum((each.resources for each in self.machines().values()), Resources(0, 0, 0))
        return size.times_in(self._total() - held)

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        return size.taken_by(sum((each.resources for each in promised), Resources(0, 0, 0)))

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        name = name_of(node_id)
        try:
            engine = self.engine()
            if seen_as(engine, name) is None:
                self._have_image(engine)
                self.have_home(engine, home)
                self._create(engine, node_id, size, home)
            start(engine, name)
            seen = seen_as(engine, name)
        except (ContainerError, EngineError) as error:
            raise self.unavailable(error) from None
        if seen is None:
            raise TargetUnavailableError(f"container {name} was removed while it was made")
        return machine_of(seen)

    def remove(self, node_id: str) -> None:
        try:
            remove_named(self.engine(), name_of(node_id))
        except (ContainerError, EngineError) as error:
            raise self.unavailable(error) from None

    def forget(self, home: str) -> None:
        try:
            self.engine().call("DELETE", f"/volumes/{volume_of(home)}")
        except EngineError as error:
            if error.status != _NOT_THERE:
                raise self.unavailable(error) from None
        except ContainerError as error:
            raise self.unavailable(error) from None

    def dismantle(self) -> None:
        """Environments of its nodes stay while another site of this server has nodes there."""
        try:
            self.engine().call("DELETE", f"/volumes/{self._cache}")
        except EngineError as error:
            if error.status not in (_NOT_THERE, _IN_USE):
                raise self.unavailable(error) from None
        except ContainerError as error:
            raise self.unavailable(error) from None

    def machines(self) -> Mapping[str, Machine]:
        wanted = {"label": [f"{SERVER}={self._server_id}", f"{SITE}={self.name}"]}
        try:
            engine = self.engine()
            found = engine.call("GET", "/containers/json", all=True, filters=wanted)
        except (ContainerError, EngineError) as error:
            raise self.unavailable(error) from None
        return {
            each["Labels"][NODE]: _machine(str(each["Names"][0]), each["Labels"], each)
            for each in found
        }

    def driver(self, node_id: str, machine: Machine) -> Driver:
        try:
            address = self.engine().address
        except ContainerError as error:
            raise self.unavailable(error) from None
        owned = machine.resources
        return ContainerNode(
            ContainerPlace(address, name_of(node_id)),
            container_connection.connect,
            self.root,
            self.server(),
            cpus=owned.cpu,
            memory_bytes=owned.memory_bytes,
            gpus=owned.gpu,
        )

    def _total(self) -> Resources:
        """What was declared, else what the engine says of its machine."""
        config = self.config
        if config.cores is None or config.memory_bytes is None:
            try:
                info = self.engine().call("GET", "/info")
            except (ContainerError, EngineError) as error:
                raise self.unavailable(error) from None
            cpu, memory = float(info["NCPU"]), int(info["MemTotal"])
        return Resources(
            cpu if config.cores is None else config.cores,
            memory if config.memory_bytes is None else config.memory_bytes,
            config.gpus,
        )

    def _have_image(self, engine: Engine) -> None:
        called = f"site {self.name!r}"
        Images(engine, called, self.locks, log.info).pull(self.config.image, {})

    def have_home(self, engine: Engine, home: str) -> None:
        """A volume that is there already stays as it is."""
        if home:
            labels = {SERVER: self._server_id, SITE: self.name, HOME: home}
            engine.call("POST", "/volumes/create", {"Name": volume_of(home), "Labels": labels})

    def _create(self, engine: Engine, node_id: str, size: Size, home: str) -> None:
        name = name_of(node_id)
        body = self.body(node_id, size, home)
        try:
            engine.call("POST", "/containers/create", body, name=name)
        except EngineError:
            if seen_as(engine, name) is None:  # else another, or this one in another life
                raise

    def body(self, node_id: str, size: Size, home: str) -> dict[str, Any]:
        homes = [f"{volume_of(home)}:{_HOME}"] if home else []
        host: dict[str, Any] = {
            "NanoCpus": math.ceil(size.cpu * 1e9),
            "Memory": size.memory_bytes,
            "MemorySwap": size.memory_bytes,
            "PidsLimit": _MOST_PROCESSES,
            "CapDrop": ["ALL"],
            "CapAdd": list(_RIGHTS),
            "SecurityOpt": ["no-new-privileges", "label=disable"],
            "Binds": [*self.config.volumes, *homes, f"{self._cache}:{_CACHE}"],
            "LogConfig": {"Type": "json-file"},
        }
        if self.config.network:
            host["NetworkMode"] = self.config.network
        devices = self._free_gpus(size.gpu)
        if devices:
            host["DeviceRequests"] = gpus.request(devices, cdi=gpus.has_cdi())
        mine = {SERVER: self._server_id, SITE: self.name}
        owned = {CPU: str(size.cpu), MEMORY: str(size.memory_bytes), GPUS: ",".join(devices)}
        labels = {NODE: node_id, **owned, HOME: home, **mine}
        return {
            "Image": self.config.image,
            "Entrypoint": ["/bin/sh", "-c", WAIT],
            "Cmd": [],
            "Env": [f"WHERRY_CACHE={_CACHE}"],
            "Labels": labels,
            "Hostname": name_of(node_id),
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": host,
        }

    def _free_gpus(self, count: int) -> list[str]:
        if not count:
            return []
        held = {gpu for machine in self.machines().values() for gpu in machine.gpus}
        return [each for each in map(str, range(self.config.gpus)) if each not in held][:count]

    def unavailable(self, error: Exception) -> TargetUnavailableError:
        if is_full_disk(str(error)):
            return TargetUnavailableError(
                f"the disk of the container engine of site {self.name!r} is full: {error}",
                hint="make room there, for instance with docker system prune",
                cause="disk_full",
            )
        told = str(error)
        named = told if self.name in told else f"site {self.name!r}: {told}"
        return TargetUnavailableError(named, cause="engine")


def machine_of(seen: Mapping[str, Any]) -> Machine:
    """By all that an engine tells of a container."""
    return _machine(str(seen["Name"]), seen["Config"]["Labels"], seen)


def _machine(name: str, labels: Mapping[str, str], seen: Mapping[str, Any]) -> Machine:
    """By its labels, since a list of containers tells no more of them."""
    name = name.lstrip("/")
    devices = tuple(filter(None, labels[GPUS].split(",")))
    owned = Resources(float(labels[CPU]), int(labels[MEMORY]), len(devices))
    config = {"address": _address(seen), "container": name}
    if labels.get(HOME):
        config["home"] = _HOME
    return Machine(name, owned, devices, config)


def name_of(node_id: str) -> str:
    return f"wherry-node-{node_id}"


def volume_of(home: str) -> str:
    return f"wherry-home-{home}"


def seen_as(engine: Engine, name: str) -> dict[str, Any] | None:
    try:
        return dict(engine.call("GET", f"/containers/{name}/json"))
    except EngineError as error:
        if error.status == _NOT_THERE:
            return None
        raise


def start(engine: Engine, name: str) -> None:
    try:
        engine.call("POST", f"/containers/{name}/start")
    except EngineError:
        seen = seen_as(engine, name)
        if seen is None or not seen["State"]["Running"]:
            raise


def _address(seen: Mapping[str, Any]) -> str:
    """Where other nodes reach it."""
    settings = seen.get("NetworkSettings") or {}
    networks = settings.get("Networks") or {}
    found = [str(each.get("IPAddress") or "") for each in networks.values()]
    return next(filter(None, [*found, str(settings.get("IPAddress") or "")]), "127.0.0.1")
