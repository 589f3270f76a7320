"""An engine of containers as a maker of machines: with sshd, and a home that stays."""

from __future__ import annotations

import io
import random
import socket
import tarfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from wherry.containers.container import remove_named
from wherry.containers.context import DOCKERFILE, Context
from wherry.containers.engine import Engine
from wherry.containers.error import ContainerError, EngineError
from wherry.containers.images import KEY, Image, Images, key_of
from wherry.containers.pruning import remove_unused
from wherry.core.errors import TargetUnavailableError
from wherry.core.vm_sizes import Size

from . import machine_connection, machine_image, registry
from .agent_driver import AgentDriver
from .base import Driver
from .container_ports import INSIDE, PORT, is_taken, published
from .machine_connection import MachinePlace
from .machine_keys import MachineKeys
from .site_container import (
    HOME,
    OVER_SSH,
    ContainerSite,
    log,
    machine_of,
    name_of,
    seen_as,
    start,
    volume_of,
)
from .sites import Machine
from .ssh_host import Host

KEYS = "wherry.keys"
USER = "root"
_AT = "/root"
_HOST, _NONE = "host", "none"
_OTHERS = ("HOME", "HOSTNAME", "TERM", "container")  # the engine's, of each container its own
_PORTS_TRIED = 5
_PATIENCE_S = 120.0
_PAUSE_S = 0.2
_LINES = 20
_KEPT = 200
_LONGEST = 100
_IMAGE = "wherry-machine"
_NOT_THERE = 404
# What a machine whose sshd is on its way says.
_SOON = ("port_closed", "not_ssh", "slow", "lost", "ssh", "network", "port_filtered", "jump")


class ContainerMachines:
    """Those of one target, ``owner``, on a site. Its machine keeps its home and its keys whatever
    becomes of its container. ``tell`` hears what is being done for a node.
    """

    def __init__(
        self,
        site: ContainerSite,
        *,
        owner: str,
        secret: bytes,
        ssh_port: int = 0,
        tell: Callable[[str, str], None] = lambda _node, _doing: None,
    ) -> None:
        self._site = site
        self._called = f"site {site.name!r}"
        self._keys = MachineKeys(secret, owner)
        self._ssh_port = ssh_port
        self._doing = tell

    def sizes(self) -> Sequence[Size]:
        return self._site.sizes()

    def room(self, size: Size) -> int:
        return self._site.room(size)

    def taken_by(self, promised: Sequence[Size], size: Size) -> int:
        return self._site.taken_by(promised, size)

    def remove(self, node_id: str) -> None:
        self._site.remove(node_id)

    def forget(self, home: str) -> None:
        self._site.forget(home)
        try:
            remove_unused(self._site.engine(), _IMAGE)
        except (ContainerError, EngineError) as error:  # they go with the next machine
            log.info("site %s: images of machines are left: %s", self._site.name, error)

    def machines(self) -> Mapping[str, Machine]:
        return self._site.machines()

    def make(self, node_id: str, size: Size, home: str = "") -> Machine:
        try:
            engine = self._site.engine()
            self._check_way(engine)
            self._site.have_home(engine, home)
            for _ in range(_PORTS_TRIED):
                self._have(engine, node_id, size, home)
                machine = self._up(engine, node_id)
                if machine is not None:
                    return machine
        except (ContainerError, EngineError) as error:
            raise self._site.unavailable(error) from None
        raise TargetUnavailableError(
            f"no port for a machine of {self._called} was free, {_PORTS_TRIED} were tried",
            hint="it is tried again",
        )

    def driver(self, node_id: str, machine: Machine) -> Driver:
        try:
            engine = self._site.engine()
        except ContainerError as error:
            raise self._site.unavailable(error) from None
        owned = machine.resources
        return AgentDriver(
            MachinePlace(self._host(machine.config), engine.address, name_of(node_id)),
            machine_connection.connect,
            self._site.root,
            self._site.server(),
            cpus=owned.cpu,
            memory_bytes=owned.memory_bytes,
            gpus=owned.gpu,
        )

    def _have(self, engine: Engine, node_id: str, size: Size, home: str) -> None:
        """The container; one that opens with other keys, or at another port, is not it."""
        name = name_of(node_id)
        seen = seen_as(engine, name)
        if seen is not None and not self._is_mine(seen):
            remove_named(engine, name)
            seen = None
        if seen is None:
            self._create(engine, node_id, size, home)

    def _create(self, engine: Engine, node_id: str, size: Size, home: str) -> None:
        """Once more where its image went with the last machine of it just now."""
        for again in (True, False):
            body = self._machine_body(node_id, size, home, self._image(engine, node_id))
            try:
                engine.call("POST", "/containers/create", body, name=name_of(node_id))
            except EngineError as error:
                if error.status != _NOT_THERE or not again:
                    raise
            else:
                return

    def _is_mine(self, seen: Mapping[str, Any]) -> bool:
        wanted = self._ssh_port in (0, published(seen)) or not seen["State"]["Running"]
        return bool(seen["Config"]["Labels"].get(KEYS) == self._keys.mark and wanted)

    def _up(self, engine: Engine, node_id: str) -> Machine | None:
        """The machine, once it answers; None where its port was another's, and it is gone again."""
        name = name_of(node_id)
        self._doing(node_id, "starting the machine")
        try:
            self._start(engine, name)
            machine = self._machine(self._there(engine, name))
            self._doing(node_id, "waiting for sshd of the machine")
            self._answered(engine, name, self._host(machine.config))
        except EngineError as error:
            if not is_taken(error.message):
                raise
            remove_named(engine, name)
            if self._ssh_port:
                raise self._port_is_taken() from None
            log.info("site %s: the port of %s was taken: %s", self._site.name, name, error.message)
            return None
        return machine

    def _start(self, engine: Engine, name: str) -> None:
        seen = self._there(engine, name)
        if not seen["State"]["Running"]:
            path = f"/containers/{name}/archive"
            engine.call("PUT", path, self._files(seen), path="/")
            start(engine, name)

    def _there(self, engine: Engine, name: str) -> dict[str, Any]:
        seen = seen_as(engine, name)
        if seen is None:
            raise TargetUnavailableError(f"container {name} was removed while it was made")
        return seen

    def _answered(self, engine: Engine, name: str, host: Host) -> None:
        """Returns when it lets us in, and a run could be started there."""
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            try:
                registry.preflight("ssh")(host, self._site.root, self._site.server())
            except TargetUnavailableError as error:
                if not self._there(engine, name)["State"]["Running"]:
                    raise EngineError(200, self._last_words(engine, name)) from None
                late = time.monotonic() > give_up_at
                if late or error.fields.get("cause") not in _SOON:
                    raise
            else:
                return
            time.sleep(_PAUSE_S)

    def _last_words(self, engine: Engine, name: str) -> str:
        path = f"/containers/{name}/logs"
        data: bytes = engine.call("GET", path, raw=True, stdout=True, stderr=True, tail=_LINES)
        printable = "".join(chr(each) if 31 < each < 127 else "\n" for each in data)
        lines = [line.strip() for line in printable.splitlines() if len(line.strip()) > 1]
        return f"the machine has ended at once: {'; '.join(lines[-3:]) or 'it said nothing'}"

    def _image(self, engine: Engine, node_id: str) -> Image:
        """Made once for each image of a site, whoever asks."""
        base = self._site.config.image
        self._doing(node_id, f"looking for the image {base}")
        said: deque[str] = deque(maxlen=_KEPT)

        def hear(line: str) -> None:
            said.append(line)
            self._doing(node_id, f"building the image of the machine: {_shortened(line)}")

        called = f"machines of {self._called}"
        images = Images(engine, called, self._site.locks, hear, "the server's log")
        found = images.pull(base, {})
        recipe = machine_image.dockerfile(base)
        name = f"{_IMAGE}:{key_of(found.id, recipe.decode())[:KEY]}"
        try:
            return images.build_named(name, Context("", {DOCKERFILE: recipe}, self._site.locks))
        except ContainerError as error:
            log.warning("site %s: the image %s:\n%s", self._site.name, name, "\n".join(said))
            last = next((line for line in reversed(said) if line.strip()), "nothing")
            raise ContainerError(f"{error}; the last of it is: {last.strip()}") from None

    def _machine_body(self, node_id: str, size: Size, home: str, image: Image) -> dict[str, Any]:
        body = self._site.body(node_id, size, "")
        host = body["HostConfig"]
        # A machine of one's own: packages can be installed there, as in any container.
        for name in ("CapDrop", "CapAdd"):
            host.pop(name, None)
        if home:
            host["Binds"] = [*host["Binds"], f"{volume_of(home)}:{_AT}"]
        labels = {KEYS: self._keys.mark, HOME: home}
        if self._site.config.network == _HOST:
            labels[PORT] = str(self._ssh_port or self._free_port())
        else:
            wanted = str(self._ssh_port or "")
            host["PortBindings"] = {
                f"{INSIDE}/tcp": [{"HostIp": "127.0.0.1", "HostPort": wanted}],
            }
            body["ExposedPorts"] = {f"{INSIDE}/tcp": {}}
        return {
            **body,
            "Image": image.name,
            "User": "0",
            "Entrypoint": ["/bin/sh", "-c", machine_image.START],
            "Labels": {**body["Labels"], **labels},
        }

    def _free_port(self) -> int:
        """One that nobody has just now; of another host's ports nothing is known."""
        if urlsplit(self._site.address).scheme not in ("", "unix"):
            return random.randint(20_000, 32_000)  # noqa: S311
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _files(self, seen: Mapping[str, Any]) -> bytes:
        """What its sshd needs, as a tar."""
        variables = [
            f"{each}:{_AT}/.local/bin" if each.startswith("PATH=") else each
            for each in seen["Config"].get("Env") or []
            if each.partition("=")[0] not in _OTHERS
        ]
        shared = self._site.config.network == _HOST
        where = ("127.0.0.1", published(seen)) if shared else ("0.0.0.0", INSIDE)
        return _tar(
            {
                machine_image.HOST_KEY: self._keys.host.private,
                machine_image.LOGIN_KEYS: f"{self._keys.login.public}\n",
                machine_image.CONFIG: machine_image.sshd_config(*where, variables),
            }
        )

    def _machine(self, seen: Mapping[str, Any]) -> Machine:
        made = machine_of(seen)
        config = {
            "address": "127.0.0.1",
            "port": published(seen),
            "username": USER,
            "host_key": self._keys.host.public,
            "container": made.config["container"],
            "home": _AT,
            "jump": self._jump(),
        }
        return Machine(made.name, made.resources, made.gpus, config)

    def _host(self, config: Mapping[str, Any]) -> Host:
        known = Host.of(config, {"private_key": self._keys.login.private})
        return replace(known, own_jumps=True)

    def _jump(self) -> str:
        """The engine's host where that is another machine, reached as the engine is."""
        where = urlsplit(self._site.address)
        if where.scheme != OVER_SSH:
            return ""
        user = f"{where.username}@" if where.username else ""
        port = f":{where.port}" if where.port else ""
        name = where.hostname or ""
        return f"{user}{f'[{name}]' if ':' in name else name}{port}"

    def _check_way(self, engine: Engine) -> None:
        """Machines listen on the loopback address of their engine's host, and nowhere else."""
        where = urlsplit(self._site.address or engine.address)
        known = where.scheme in ("unix", OVER_SSH)
        if not known and where.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise TargetUnavailableError(
                f"{self._called} has its engine at {where.geturl()}: machines there listen on "
                "that host's own loopback address, to which there is no way from here",
                hint=f"name the engine by ssh://user@{where.hostname} instead, and machines are "
                "reached through that host",
            )
        if self._site.config.network == _NONE:
            raise TargetUnavailableError(
                f"containers of {self._called} have no network, and a machine needs one",
                hint="change the site's network",
            )

    def _port_is_taken(self) -> TargetUnavailableError:
        return TargetUnavailableError(
            f"port {self._ssh_port} of the engine's host is taken by another program",
            hint="free it, or make the machine with another ssh_port, or with none",
            cause="port_taken",
        )


def _shortened(line: str) -> str:
    text = " ".join(line.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _tar(files: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(text.encode()), 0o600
            tar.addfile(entry, io.BytesIO(text.encode()))
    return archive.getvalue()
